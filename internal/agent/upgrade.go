package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/verge-edge/verge/internal/wire"
)

// Upgrade lets the engine of the worker in dir hand over to another program, "" is this
// one. Its agent, if it runs, goes on. An error means that the former program goes on.
func Upgrade(ctx context.Context, dir string, q wire.EngineUpgrade) (wire.EngineUpgraded, error) {
	if q.Program == "" {
		self, err := os.Executable()
		if err != nil {
			return wire.EngineUpgraded{}, fmt.Errorf("finding this program: %w", err)
		}
		q.Program = self
	}
	program, err := filepath.Abs(q.Program)
	if err != nil {
		return wire.EngineUpgraded{}, fmt.Errorf("finding the program: %w", err)
	}
	q.Program = program
	engine := NewRemote(dir)
	defer engine.Close()
	if _, err := engine.State(ctx, 0, 0); err != nil {
		return wire.EngineUpgraded{}, wire.Problemf(0, "not-running", "start it with the new program: verge worker", "this worker does not run", "no engine answers in %s: %v", dir, err)
	}
	done, err := engine.Upgrade(ctx, q)
	if errors.Is(err, errNotThere) {
		return done, wire.Problemf(0, "too-old", "end the agent, then verge worker stop, then start the new version", "this engine cannot be upgraded while it runs", "it is of a version before that")
	}
	return done, err
}
