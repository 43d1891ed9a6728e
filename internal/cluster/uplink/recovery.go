package uplink

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/recovery"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Prove makes the proofs of revisions that a worker is given, so that it can show later
// that it had them from this cluster.
func Prove(c *core.Core, worker string) func(wire.Rev) []byte { return c.Prover.Revisions(worker) }

// OnWas hears from the root what it had of this cluster before. The next pass heeds that:
// who calls must not wait for one.
func OnWas(c *core.Core, was wire.Rev) {
	if _, ahead := c.RecordStore.Timeline().Ahead(was, c.RecordStore.Rev()); ahead {
		c.Was.Store(&was)
		loop.Poke(c.Wake)
	}
}

// FollowRoot begins a recovery where the root had a later state of this cluster than the store
// has. The caller has the model.
func FollowRoot(ctx context.Context, c *core.Core, now time.Time) error {
	was := c.Was.Swap(nil)
	// Once for each process: the root is told all of the observed state anew by it.
	if was == nil || c.M.Mark() != nil {
		return nil
	}
	from, ahead := c.RecordStore.Timeline().Ahead(*was, c.RecordStore.Rev())
	if !ahead {
		return nil
	}
	err := BeginRecovery(ctx, c, backup.Proof{Peer: state.TheRoot, By: "the root", Has: *was, From: from}, now)
	if err != nil {
		c.Was.CompareAndSwap(nil, was)
	}
	return err
}

// BeginRecovery makes the root and the workers be heard before anything is decided:
// somebody has seen a later state than the store has. The caller has the model.
func BeginRecovery(ctx context.Context, c *core.Core, p backup.Proof, now time.Time) error {
	c.M.Proven[p.Peer] = p.Has
	mark := c.M.Mark().Behind(c.M.Past(), p, append(records.SortedKeys(c.M.Workers), state.TheRoot), now)
	if mark == nil {
		return nil
	}
	t := c.M.Begin()
	state.MarkTable.Put(t.Rows, "", mark)
	if err := c.Keeper.Whole(ctx, t); err != nil {
		return fmt.Errorf("this cluster is an older copy of what %s has seen, and cannot store that: %w", p.By, err)
	}
	c.M.Recovery.Settled = false
	what := fmt.Sprintf("%s has seen a later state (%s) than this cluster's data directory has: it is an older copy; "+
		"nothing is decided until the root and the workers have been heard", p.By, p.Has)
	if p.Twin {
		what = fmt.Sprintf("%s was told a state (%s) by another process with the keys of this cluster: two work "+
			"on copies of one data directory, stop one of them", p.By, p.Has)
	}
	c.EventRing.Note(now, event.ClusterRecovery, c.ClusterName, what)
	loop.Poke(c.Wake)
	return nil
}

// FinishRecovery ends the wait for the root or a worker that will not come back.
func FinishRecovery(ctx context.Context, c *core.Core, name string, now time.Time) error {
	return core.Update(ctx, c, now, func(t *state.Tx) error {
		m := t.Model
		if m.Mark() == nil {
			return wire.Problemf(409, "not-recovering", "verge status", "there is no recovery to end",
				"cluster %s was not restored, or its recovery has ended", c.ClusterName)
		}
		peer, what := name, "for "+name
		switch {
		case name == "":
			what = "as a whole"
		case name == "root":
			peer = state.TheRoot
		case m.Workers[name] == nil:
			return wire.Problemf(404, "no-such-worker", "verge recovery", "there is no such worker",
				"%.63s is not in cluster %s", name, c.ClusterName)
		}
		for _, other := range append(records.SortedKeys(m.Workers), state.TheRoot) {
			if (peer == "" || peer == other) && m.Unasked(other) {
				recovery.SettlePast(t, recovery.Past(t).Without(other, m.Proven[other]))
			}
		}
		if peer == "" {
			recovery.SettlePast(t, recovery.Past(t).Ended(m.Mark(), c.RecordStore.Rev()))
			state.MarkTable.Put(t.Rows, "", nil)
		} else {
			state.MarkTable.Put(t.Rows, "", m.Mark().Heard(peer, now))
		}
		t.Event(event.ClusterRecoveryEnded, c.ClusterName, "the recovery was ended %s by %s", what, rest.Caller(ctx))
		return nil
	})
}
