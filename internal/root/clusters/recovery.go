package clusters

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/recovery"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// ProofOf is the purpose of the codes that prove revisions.
const ProofOf = "revision of a root"

// Prove makes the proofs of revisions that a cluster is given, so that it can show later
// that it had them from this root.
func Prove(c *core.Core, cluster string) func(wire.Rev) []byte { return c.Prover.Revisions(cluster) }

// takeAhead begins a recovery where a cluster proves that it has seen a state of this root
// that the store has never been in: somebody put an older copy of the data directory in
// its place. It is the recovery of a restored backup. A cluster that proves nothing is
// not believed: it could have its own words made what all are told. It is called within core.Do.
func takeAhead(ctx context.Context, c *core.Core, cl *state.Cluster, r wire.Report, now time.Time) error {
	if len(r.Proof) == 0 || r.Status == nil && !cl.EverHeard {
		return nil
	}
	from, ahead := DesiredOf(c, cl.Name).Ahead(r.Have, r.Proof)
	if !ahead {
		return nil
	}
	c.M.Proven[cl.Name] = r.Have
	proof := backup.Proof{Peer: cl.Name, By: "cluster " + cl.Name, Has: r.Have, From: from, Twin: cl.Matched}
	mark := c.M.Mark().Behind(c.M.Past(), proof, records.SortedKeys(c.M.Clusters), now)
	if mark == nil {
		return nil
	}
	t := c.M.Begin()
	state.MarkTable.Put(t.Rows, "", mark)
	if err := c.Keeper.Whole(ctx, t); err != nil {
		return fmt.Errorf("this root is an older copy of what the cluster has seen, and cannot store that: %w", err)
	}
	c.M.Settled = false
	for _, other := range c.M.Clusters {
		if recovery.Unasked(c.M, other.Name) {
			other.Held, other.Unheld = nil, ""
		}
	}
	what := fmt.Sprintf("cluster %s has seen a later state (%s) than this root's data directory has: it is an older "+
		"copy; nothing is decided until the clusters have said what they hold", cl.Name, r.Have)
	if cl.Matched {
		what = fmt.Sprintf("cluster %s was told a state (%s) by another root with the keys of this one: two "+
			"roots work on copies of one data directory, stop one of them; "+
			"it is asked what it holds", cl.Name, r.Have)
	}
	cl.Matched = false
	c.EventRing.Note(now, event.RootRecovery, "", what)
	loop.Poke(c.AskWake)
	loop.Poke(c.Wake)
	return nil
}

// AskClusters asks the clusters that must be asked, each when it has reported,
// until ctx ends. It has nothing to do where nothing was restored.
func AskClusters(ctx context.Context, c *core.Core) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.AskWake:
		}
		for _, name := range toAsk(c) {
			askHeld(ctx, c, name)
		}
	}
}

// toAsk are those that have reported and not been asked.
func toAsk(c *core.Core) []string {
	return core.View(c, func(m *state.Model) (names []string) {
		for name, cl := range m.Clusters {
			if cl.EverHeard && cl.Held == nil && recovery.Unasked(m, name) {
				names = append(names, name)
			}
		}
		return names
	})
}

// askHeld asks one cluster what it holds. If that fails its next report leads here
// again.
func askHeld(ctx context.Context, c *core.Core, name string) {
	h, have, err := readHeld(ctx, c, name)
	core.Do(c, func(m *state.Model) {
		cl := m.Clusters[name]
		if cl == nil || !recovery.Unasked(m, name) {
			return
		}
		if err != nil {
			if text := state.Cut(err.Error(), state.MaxWords); text != cl.Unheld {
				cl.Unheld = text
				c.Logger.Warn("a cluster does not say what it holds", "cluster", name, "error", err)
			}
			return
		}
		h.Lost = !have.IsZero() && (len(m.Mark().Dropped) > 0 ||
			!c.RecordStore.Timeline().Known(have, c.RecordStore.Rev()))
		cl.Held, cl.Unheld = h, ""
		loop.Poke(c.Wake)
	})
}

// readHeld puts the pages of the answer together.
func readHeld(ctx context.Context, c *core.Core, name string) (*state.Holdings, wire.Rev, error) {
	var h state.Holdings
	var have wire.Rev
	size, after := 0, ""
	for {
		var page rpc.Holdings
		if err := core.Ask(ctx, c, name, rpc.Ask{What: rpc.AskHoldings, After: after}, &page); err != nil {
			return nil, have, err
		}
		if after != "" && page.Have != have {
			return nil, have, fmt.Errorf("what it holds changed from %s to %s while it was asked", have, page.Have)
		}
		have = page.Have
		if page.Lease != nil {
			h.Lease = page.Lease
		}
		for n := range page.Shares {
			s := &page.Shares[n]
			if err := recovery.CheckHeld(s); err != nil {
				return nil, have, fmt.Errorf("what it holds cannot be used: %w", err)
			}
			if key := s.App + "." + s.Service; key <= after {
				return nil, have, fmt.Errorf("its answer is not in order: %s after %s", key, after)
			} else {
				after = key
			}
			b, err := json.Marshal(s)
			if err != nil {
				return nil, have, err
			}
			if size += len(b); size > recovery.MaxHeldBytes || len(h.Shares) >= recovery.MaxHeld {
				return nil, have, fmt.Errorf("it holds more than %d services or %d MiB", recovery.MaxHeld,
					recovery.MaxHeldBytes>>20)
			}
			h.Shares = append(h.Shares, *s)
		}
		if !page.More || len(page.Shares) == 0 {
			return &h, have, nil
		}
	}
}

// FinishRecovery ends the wait for a cluster that will not come back.
func FinishRecovery(ctx context.Context, c *core.Core, name string, now time.Time) error {
	return core.Update(ctx, c, now, func(t *state.Tx) error {
		m := t.Model
		if m.Mark() == nil {
			return wire.Problemf(409, "not-recovering", "verge status", "there is no recovery to end",
				"this root was not restored, or its recovery has ended")
		}
		if name != "" && m.Clusters[name] == nil {
			return NoCluster(name)
		}
		for other := range m.Clusters {
			if (name == "" || name == other) && recovery.Unasked(m, other) {
				recovery.SettlePast(t, recovery.Past(t).Without(other, m.Proven[other]))
			}
		}
		if name != "" {
			state.MarkTable.Put(t.Rows, "", m.Mark().Heard(name, now))
			t.Event(event.ClusterRecoveryEnded, name, "what it holds is not asked for any more, by %s", rest.Caller(ctx))
			return nil
		}
		recovery.SettlePast(t, recovery.Past(t).Ended(m.Mark(), c.RecordStore.Rev()))
		state.MarkTable.Put(t.Rows, "", nil)
		t.Event(event.RootRecoveryEnded, "", "the recovery was ended by %s", rest.Caller(ctx))
		return nil
	})
}
