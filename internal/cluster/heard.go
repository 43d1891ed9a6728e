package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/wire"
)

// A pass looks at everything, and most of what makes one necessary is that an instance
// has started and is ready. Where thousands start, that would be a pass for each
// handful of reports. So what was only heard of is taken over by itself (heed): the
// part of a pass that is about these instances. What it does not handle it leaves as it
// is, and the next pass, which follows within a tick, looks at everything again.

// noteHeard notes of which instances a worker has said something new. The mutex is held.
func (c *core) noteHeard(ids []wire.InstanceID) {
	if c.heardWake == nil || !c.steady {
		loop.Poke(c.wake)
		return
	}
	if c.heardOf == nil {
		c.heardOf = map[wire.InstanceID]bool{}
	}
	for _, id := range ids {
		c.heardOf[id] = true
	}
	loop.Poke(c.heardWake)
}

// heed takes over what was heard since, as the pass of a loop.
func (c *core) heed(ctx context.Context, now time.Time, _ bool) (settled bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	begin := time.Now()
	defer func() { c.heeded = time.Since(begin) }()
	ids := records.SortedKeys(c.heardOf)
	c.heardOf = nil
	if len(ids) > 0 {
		c.owed = true
	}
	defer func() {
		// A pass has the last word, at the latest after a tick.
		if c.owed && (now.Sub(c.passed) >= loop.Tick || err != nil) {
			c.owed = false
			loop.Poke(c.wake)
		}
	}()
	if len(ids) == 0 || c.keeper.Stale() || c.held || c.m.Mark() != nil {
		return true, nil
	}
	t, left := c.m.stepOf(ids, now)
	if left {
		c.owed = false
		loop.Poke(c.wake)
	}
	stored, unstored, err := c.keeper.Parts(ctx, t)
	c.unwritten(unstored, now)
	if err != nil {
		return false, fmt.Errorf("storing what was heard of instances: %w", err)
	}
	if !stored {
		return true, nil
	}
	c.tell(t, now)
	c.news.Ring()
	return true, nil
}

// stepOf is the part of step that is about some instances of which something was
// heard, where that is no more than that they have started and whether they are ready.
// left: others are among them, which are left to a pass.
func (m *model) stepOf(ids []wire.InstanceID, now time.Time) (t *tx, left bool) {
	t = m.begin()
	services := map[[2]string]bool{}
	for _, id := range ids {
		was := m.Insts[id]
		if was == nil {
			continue // an instance of the past: what its worker has of it, it is told to end
		}
		if !t.plain(was) {
			left = true
			continue
		}
		said := len(t.Events)
		t.observe(id, now)
		is := t.Inst(id)
		if is == was {
			continue
		}
		if !t.plain(is) || is.State != wire.Running || is.Worker != was.Worker || is.Again() != was.Again() {
			t.Put(*was)
			t.Events, left = t.Events[:said], true
			continue
		}
		t.newsOf(was, is)
		services[[2]string{is.App, is.Service}] = true
		t.report(is)
	}
	t.routeOf(services)
	return t, left
}

// plain: an instance that is where it should be, and about which nothing is to be
// decided.
func (t *tx) plain(i *wire.Instance) bool {
	return (i.State == wire.WorkerScheduled || i.State == wire.Running) && i.Worker != "" && i.Moving == nil && i.Leaving == nil &&
		i.Volumes == nil && i.Shadow == nil && !i.Draining && !i.Asleep && !i.Unreachable && t.wanted(i)
}

// steady: every instance is where it should be and as its share says, or on its way to
// start there. Where one is not, others may wait for what is heard of this one.
func (m *model) steady() bool {
	t := m.begin()
	if m.busyRolling() {
		return false
	}
	for _, i := range m.Insts {
		if i.State == wire.Terminated && i.Leaving == nil {
			continue
		}
		s := m.Shares[i.App+"."+i.Service]
		if s == nil || i.Revision != s.Revision || i.Restarted < restartOf(s, i.Ordinal).N || i.Ordinal >= wire.LocalOrdinals || !state.Asleep(i) && !t.plain(i) {
			return false
		}
	}
	return true
}

// heedPause is when heed looks again by itself: never where a pass has been since.
func (c *core) heedPause(bool) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owed {
		return loop.Tick
	}
	return time.Hour
}

// heedRest is the pause after heed: where thousands of instances start, a write is for
// as many as are heard of in the time of three, instead of for two or three.
func (c *core) heedRest() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return min(2*c.heeded, mostHeedRest)
}

// mostHeedRest bounds the pause after heed, for routes that wait for who is ready.
const mostHeedRest = 50 * time.Millisecond

// mostRest bounds the pause after a pass, below what makes a loop think that its
// process stood still.
const mostRest = loop.Tick / 2

// rest is the pause after a pass, so that passes take a quarter of the time at most
// however often something changes: what changes meanwhile is one pass.
func (c *core) rest() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stepped < 5*time.Millisecond {
		return 0
	}
	return min(3*c.stepped, mostRest)
}
