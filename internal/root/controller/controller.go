package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/policy/suspicion"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/edits"
	"github.com/verge-edge/verge/internal/root/overflow"
	"github.com/verge-edge/verge/internal/root/placement"
	"github.com/verge-edge/verge/internal/root/reconcile"
	"github.com/verge-edge/verge/internal/root/recovery"
	"github.com/verge-edge/verge/internal/root/rollouts"
	"github.com/verge-edge/verge/internal/root/secrets"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/undo"
	"github.com/verge-edge/verge/internal/wire"
)

// Init loads the model from the store.
func Init(ctx context.Context, c *core.Core, deadAfter time.Duration, now time.Time) error {
	c.Wake, c.AskWake = make(chan struct{}, 1), make(chan struct{}, 1)
	c.M, c.Started, c.LastPass, c.Planned = state.NewModel(deadAfter), now, now, loop.Tick
	if c.Key != nil {
		secrets.Memory(c.M).Key = c.Key.ID()
		var err error
		if c.Prover, err = c.Key.Prover(clusters.ProofOf); err != nil {
			return err
		}
	}
	c.Served, c.Keeper.Store = map[string]core.Serving{}, c.RecordStore
	if err := core.Read(ctx, c.M, c.RecordStore, now); err != nil {
		return err
	}
	core.Hold(c)
	if c.Held { // before anybody else has the store
		c.RecordStore = records.Hold(c.RecordStore, records.Held(c.M.Unread))
		c.Keeper.Store = c.RecordStore
	}
	placement.RecallMoves(c.M, now)
	core.Refuse(c)
	core.Place(c)
	return nil
}

// Pass judges the clusters and, if that or anything else (changed) has changed,
// brings the whole closer to what it should be until there is nothing left to do
// at this moment. settled: nothing is waiting for time to pass.
func Pass(ctx context.Context, c *core.Core, now time.Time, changed bool) (settled bool, err error) {
	return core.View2(c, func(m *state.Model) (settled bool, err error) {
		if c.Held {
			return true, nil
		}
		judged := clusters.Judge(c, now)
		if lulled := overflow.Lull(m, now); !judged && !lulled && !changed {
			return true, nil
		}
		defer core.Notify(c)
		if err := core.Reload(ctx, c, now); err != nil {
			return false, err
		}
		rollouts.Memory(m).Gates = c.HookKeeper.Gates(wire.GateWave)
		for range reconcile.MaxRounds {
			t := reconcile.Step(m, now)
			edits.Close(ctx, c, t)
			stored, left, err := c.Keeper.Parts(ctx, t)
			core.Unwritten(c, left, now)
			if err != nil {
				return false, fmt.Errorf("storing what was decided: %w", err)
			}
			if !stored {
				break
			}
			if len(t.Revoked) > 0 {
				core.Refuse(c)
			}
			clusters.Tell(c, t, now)
		}
		clusters.TellFound(c, now)
		waits := undo.NoteHeld(ctx, c, now)
		undo.RollBack(ctx, c, now)
		m.Settled = !recovery.Holding(m, now)
		return calm(c) && m.Settled && !waits, nil
	})
}

// calm: nothing waits for a deadline.
func calm(c *core.Core) bool {
	if overflow.Lulled(c.M) {
		return false
	}
	for _, cl := range c.M.Clusters {
		if cl.Suspect {
			return false
		}
	}
	for _, i := range c.M.Insts {
		if i.Cluster == "" && !i.Draining && c.M.Hidden(i) {
			continue // a right that nobody has room for: another aggregate will say so
		}
		if i.State != wire.ClusterScheduled || i.Draining {
			return false
		}
	}
	for _, a := range c.M.Apps {
		if !a.Deleting.IsZero() {
			return false
		}
	}
	return true
}

// Pause is the time to the next look: until a cluster could be suspect where
// nothing else waits, a tick where something does.
func Pause(c *core.Core, settled bool) time.Duration {
	return core.View(c, func(m *state.Model) time.Duration {
		c.Planned = loop.Tick
		if settled {
			c.Planned = suspicion.NextLook(time.Now(), loop.Tick, func(yield func(suspicion.Peer) bool) {
				for _, cl := range m.Clusters {
					if !yield(cl.Peer()) {
						return
					}
				}
			})
		}
		return c.Planned
	})
}
