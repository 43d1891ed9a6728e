package resttest

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
)

// Plan answers with PlanAnswer, and notes the descriptor.
func (f *Fake) Plan(ctx context.Context, source []byte) (wire.Plan, error) {
	end, err := f.begin("plan")
	if err != nil {
		return wire.Plan{}, err
	}
	defer end()
	f.noteLocal(ctx)
	f.Planned = append(f.Planned, append([]byte(nil), source...))
	return f.PlanAnswer, nil
}
