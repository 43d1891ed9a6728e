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

// keyRestored is backup.MarkKey with the dot that kinds of keys end in.
const keyRestored = "restored."

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
	h.lost = !have.IsZero() && (len(c.m.recovery.mark.Dropped) > 0 || !c.store.Timeline().Known(have, c.store.Rev()))
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
	if c.m.recovery.mark == nil {
		return wire.Problemf(409, "not-recovering", "verge status", "there is no recovery to end", "this root was not restored, or its recovery has ended")
	}
	if name != "" && c.m.clusters[name] == nil {
		return noCluster(name)
	}
	t := c.m.begin()
	if name == "" {
		t.unmark = true
	} else {
		t.asked(name, now)
	}
	op, err := records.Op(backup.MarkKey, t.mark)
	if err != nil {
		return err
	}
	if _, err := c.store.Commit(ctx, op); c.wrote(err) != nil {
		return unstored(err)
	}
	t.done()
	subject, what := "root", "the recovery was ended by "+rest.Caller(ctx)
	if name != "" {
		subject, what = "cluster/"+name, "what it holds is not asked for any more, by "+rest.Caller(ctx)
	}
	c.events.Add(now, tier, subject, what)
	loop.Poke(c.wake)
	return nil
}
