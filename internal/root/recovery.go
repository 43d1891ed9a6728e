package root

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// proofOf is the purpose of the codes that prove revisions.
const proofOf = "revision of a root"

// prove makes the proofs of revisions that a cluster is given, so that it can show later
// that it had them from this root.
func (c *core) prove(cluster string) func(wire.Rev) []byte { return c.prover.Revisions(cluster) }

// heedAhead begins a recovery where a cluster proves that it has seen a state of this root
// that the store has never been in: somebody put an older copy of the data directory in
// its place. It is the recovery of a restored backup. A cluster that proves nothing is
// not believed: it could have its own words made what all are told. The mutex is held.
func (c *core) heedAhead(ctx context.Context, cl *cluster, r wire.Report, now time.Time) error {
	if len(r.Proof) == 0 || r.Status == nil && !cl.everHeard {
		return nil
	}
	from, ahead := c.desiredOf(cl.Name).Ahead(r.Have, r.Proof)
	if !ahead {
		return nil
	}
	c.m.recovery.proven[cl.Name] = r.Have
	proof := backup.Proof{Peer: cl.Name, By: "cluster " + cl.Name, Has: r.Have, From: from, Twin: cl.matched}
	mark := c.m.mark().Behind(c.m.past(), proof, records.SortedKeys(c.m.clusters), now)
	if mark == nil {
		return nil
	}
	t := c.m.begin()
	markTable.Put(t.rows, "", mark)
	if err := c.keeper.Whole(ctx, t); err != nil {
		return fmt.Errorf("this root is an older copy of what the cluster has seen, and cannot store that: %w", err)
	}
	c.m.recovery.settled = false
	for _, other := range c.m.clusters {
		if c.m.unasked(other.Name) {
			other.held, other.unheld = nil, ""
		}
	}
	what := fmt.Sprintf("cluster %s has seen a later state (%s) than this root's data directory has: it is an older copy; "+
		"nothing is decided until the clusters have said what they hold", cl.Name, r.Have)
	if cl.matched {
		what = fmt.Sprintf("cluster %s was told a state (%s) by another root with the keys of this one: two roots work on copies of one data directory, stop one of them; "+
			"it is asked what it holds", cl.Name, r.Have)
	}
	cl.matched = false
	c.events.Add(now, tier, "root", what)
	c.log.Warn(what)
	loop.Poke(c.askWake)
	loop.Poke(c.wake)
	return nil
}

// askClusters asks the clusters that must be asked, each when it has reported,
// until ctx ends. It has nothing to do where nothing was restored.
func (c *core) askClusters(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.askWake:
		}
		for _, name := range c.toAsk() {
			c.askHeld(ctx, name)
		}
	}
}

// toAsk are those that have reported and not been asked.
func (c *core) toAsk() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, cl := range c.m.clusters {
		if cl.everHeard && cl.held == nil && c.m.unasked(name) {
			names = append(names, name)
		}
	}
	return names
}

// askHeld asks one cluster what it holds. If that fails its next report leads here
// again.
func (c *core) askHeld(ctx context.Context, name string) {
	h, have, err := c.readHeld(ctx, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.m.clusters[name]
	if cl == nil || !c.m.unasked(name) {
		return
	}
	if err != nil {
		if text := cut(err.Error(), maxWords); text != cl.unheld {
			cl.unheld = text
			c.log.Warn("a cluster does not say what it holds", "cluster", name, "error", err)
		}
		return
	}
	h.lost = !have.IsZero() && (len(c.m.mark().Dropped) > 0 || !c.store.Timeline().Known(have, c.store.Rev()))
	cl.held, cl.unheld = h, ""
	loop.Poke(c.wake)
}

// readHeld puts the pages of the answer together.
func (c *core) readHeld(ctx context.Context, name string) (*held, wire.Rev, error) {
	var h held
	var have wire.Rev
	size, after := 0, ""
	for {
		var page wire.Holdings
		if err := c.ask(ctx, name, wire.Ask{What: wire.AskHoldings, After: after}, &page); err != nil {
			return nil, have, err
		}
		if after != "" && page.Have != have {
			return nil, have, fmt.Errorf("what it holds changed from %s to %s while it was asked", have, page.Have)
		}
		have = page.Have
		if page.Lease != nil {
			h.lease = page.Lease
		}
		for n := range page.Shares {
			s := &page.Shares[n]
			if err := checkHeld(s); err != nil {
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
			if size += len(b); size > maxHeldBytes || len(h.shares) >= maxHeld {
				return nil, have, fmt.Errorf("it holds more than %d services or %d MiB", maxHeld, maxHeldBytes>>20)
			}
			h.shares = append(h.shares, *s)
		}
		if !page.More || len(page.Shares) == 0 {
			return &h, have, nil
		}
	}
}

// Recovery implements rest.Backend.
func (b backend) Recovery(context.Context) (wire.RecoveryView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.m.recoveryView(time.Now()), nil
}

// FinishRecovery implements rest.Backend: a cluster is not asked any more, or (name
// "") none is.
func (b backend) FinishRecovery(ctx context.Context, name string) error {
	return b.finishRecovery(ctx, name, time.Now())
}

func (c *core) finishRecovery(ctx context.Context, name string, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reload(ctx, now); err != nil {
		return unstored(err)
	}
	if c.m.mark() == nil {
		return wire.Problemf(409, "not-recovering", "verge status", "there is no recovery to end", "this root was not restored, or its recovery has ended")
	}
	if name != "" && c.m.clusters[name] == nil {
		return noCluster(name)
	}
	t := c.m.begin()
	for other := range c.m.clusters {
		if (name == "" || name == other) && c.m.unasked(other) {
			t.settlePast(t.past().Without(other, c.m.recovery.proven[other]))
		}
	}
	if name == "" {
		t.settlePast(t.past().Ended(c.m.mark(), c.store.Rev()))
		markTable.Put(t.rows, "", nil)
	} else {
		markTable.Put(t.rows, "", c.m.mark().Heard(name, now))
	}
	if err := c.keeper.Whole(ctx, t); err != nil {
		return unstored(err)
	}
	subject, what := "root", "the recovery was ended by "+rest.Caller(ctx)
	if name != "" {
		subject, what = "cluster/"+name, "what it holds is not asked for any more, by "+rest.Caller(ctx)
	}
	c.events.Add(now, tier, subject, what)
	loop.Poke(c.wake)
	return nil
}
