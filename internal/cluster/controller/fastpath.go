package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/pace"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/loop"
)

// FastPath takes over what was heard since, as the pass of a loop.
func FastPath(ctx context.Context, c *core.Core, now time.Time, _ bool) (settled bool, err error) {
	return core.View2(c, func(m *state.Model) (settled bool, err error) { return fastPath(ctx, c, m, now) })
}

// fastPath is FastPath with the model.
func fastPath(ctx context.Context, c *core.Core, m *state.Model, now time.Time) (settled bool, err error) {
	begin := time.Now()
	defer func() { pace.Memory(m).Heeded = time.Since(begin) }()
	ids := records.SortedKeys(pace.Memory(m).HeardOf)
	pace.Memory(m).HeardOf = nil
	if len(ids) > 0 {
		pace.Memory(m).Owed = true
	}
	defer func() {
		// A pass has the last word, at the latest after a tick.
		if pace.Memory(m).Owed && (now.Sub(pace.Memory(m).Passed) >= loop.Tick || err != nil) {
			pace.Memory(m).Owed = false
			loop.Poke(c.Wake)
		}
	}()
	if len(ids) == 0 || c.Keeper.Stale() || core.Memory(m).Held || m.Mark() != nil {
		return true, nil
	}
	t, left := reconcile.StepOf(m, ids, now)
	if left {
		pace.Memory(m).Owed = false
		loop.Poke(c.Wake)
	}
	stored, unstored, err := c.Keeper.Parts(ctx, t)
	core.Unwritten(c, unstored, now)
	if err != nil {
		return false, fmt.Errorf("storing what was heard of instances: %w", err)
	}
	if !stored {
		return true, nil
	}
	workers.Tell(c, t, now)
	c.News.Ring()
	return true, nil
}

// FastPathPause is when the fast path looks again by itself: never where a pass has been since.
func FastPathPause(c *core.Core, _ bool) time.Duration {
	return core.View(c, func(m *state.Model) time.Duration {
		if pace.Memory(m).Owed {
			return loop.Tick
		}
		return time.Hour
	})
}

// FastPathRest is the pause after the fast path: where thousands of instances start, a write is for
// as many as are heard of in the time of three, instead of for two or three.
func FastPathRest(c *core.Core) time.Duration {
	return core.View(c, func(m *state.Model) time.Duration {
		return min(2*pace.Memory(m).Heeded, reconcile.MaxFastPathRest)
	})
}

// Rest is the pause after a pass, so that passes take a quarter of the time at most
// however often something changes: what changes meanwhile is one pass.
func Rest(c *core.Core) time.Duration {
	return core.View(c, func(m *state.Model) time.Duration {
		if pace.Memory(m).Stepped < 5*time.Millisecond {
			return 0
		}
		return min(3*pace.Memory(m).Stepped, reconcile.MostRest)
	})
}
