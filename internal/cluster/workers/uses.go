package workers

import (
	"context"
	"fmt"

	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/routes"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// TakeUses stores what a worker says that it uses, where that is new. What cannot be
// understood makes it one that is told all, as one that says nothing.
func TakeUses(ctx context.Context, c *core.Core, w *state.Worker, s *wire.Uses) error {
	name := w.Info.Name
	marks, err := routes.MarksOf(s)
	if err != nil {
		c.Logger.Warn("a worker is told the endpoints of all services", "worker", name, "why", err)
	}
	t := c.M.Begin()
	routes.SetUses(t, name, marks)
	if t.Rows.Len() == 0 {
		return nil
	}
	if !w.Says.Allow() {
		return errTooSoon
	}
	if _, _, err := c.Keeper.Parts(ctx, t); err != nil {
		return fmt.Errorf("storing what worker %s uses: %w", name, err)
	}
	return nil
}
