package cluster

import (
	"context"
	"fmt"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"time"
)

// CordonWorker implements rest.Backend.
func (b backend) CordonWorker(ctx context.Context, cluster, name string, q wire.CordonRequest) (wire.Cordon, error) {
	if err := b.ours(cluster); err != nil {
		return wire.Cordon{}, err
	}
	return b.cordon(ctx, wire.Ask{What: wire.AskCordon, Worker: name, Cordon: &wire.CordonAsk{CordonRequest: q}})
}

// UncordonWorker implements rest.Backend.
func (b backend) UncordonWorker(ctx context.Context, cluster, name string) error {
	if err := b.ours(cluster); err != nil {
		return err
	}
	_, err := b.cordon(ctx, wire.Ask{What: wire.AskUncordon, Worker: name})
	return err
}

// ours says that a cluster is not this one.
func (c *core) ours(cluster string) error {
	if cluster != c.name {
		return rest.ElsewhereAt("operating a worker", cluster)
	}
	return nil
}

// cordon takes a worker out of use or back, as the caller of ctx asks for.
func (c *core) cordon(ctx context.Context, q wire.Ask) (wire.Cordon, error) {
	now := time.Now()
	var cordon wire.Cordon
	err := c.setCordon(ctx, q.Worker, now, func(old *wire.Cordon) *wire.Cordon {
		if q.What == wire.AskUncordon {
			return nil
		}
		next := rest.NextCordon(old, q.Cordon.CordonRequest, rest.Caller(ctx), now)
		cordon = *next
		return next
	})
	return cordon, err
}

// setCordon stores what change makes of a worker's cordon, where that is new.
func (c *core) setCordon(ctx context.Context, name string, now time.Time, change func(*wire.Cordon) *wire.Cordon) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reload(ctx, now); err != nil {
		return cordonUnstored(err)
	}
	w := c.m.Workers[name]
	if w == nil {
		return c.noWorker(name)
	}
	next := w.WorkerRecord
	if next.Cordon = change(w.Cordon); rest.SameCordon(w.Cordon, next.Cordon) {
		return nil
	}
	if err := c.keepWorker(ctx, name, next); err != nil {
		return cordonUnstored(err)
	}
	what := rest.CordonWords(next.Cordon, rest.Caller(ctx))
	c.events.Add(now, c.m.Tier(), "worker/"+c.name+"/"+name, what)
	c.log.Info("worker "+what, "worker", name)
	loop.Poke(c.wake)
	loop.Poke(c.upChanged) // the root counts only what takes something new
	return nil
}

// WorkerDrain implements rest.Backend.
func (b backend) WorkerDrain(ctx context.Context, cluster, name string) (wire.DrainView, error) {
	if err := b.ours(cluster); err != nil {
		return wire.DrainView{}, err
	}
	return b.workerDrain(ctx, name, time.Now())
}

func (c *core) workerDrain(ctx context.Context, name string, now time.Time) (wire.DrainView, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reload(ctx, now); err != nil {
		return wire.DrainView{}, cordonUnstored(err)
	}
	if c.m.Workers[name] == nil {
		return wire.DrainView{}, c.noWorker(name)
	}
	return c.m.drainView(name, now), nil
}

func (c *core) noWorker(name string) error {
	return wire.Problemf(404, "no-such-worker", "verge get workers", "there is no such worker", "%s is not in cluster %s", name, c.name)
}

// drainView says what is still on a worker. It asks the same pass that decides.
func (m *model) drainView(name string, now time.Time) wire.DrainView {
	w := m.Workers[name]
	v := wire.DrainView{Left: []wire.DrainItem{}, Source: m.Tier(), AgeSeconds: -1}
	if w.EverHeard {
		v.AgeSeconds = now.Sub(w.Heard).Seconds()
	}
	if w.Draining() {
		v.Cordon = w.Cordon
	}
	t := m.step(now)
	for _, i := range t.Instances() {
		item := wire.DrainItem{Instance: i.ID}
		switch {
		case i.Leaving != nil && i.Leaving.Worker == name:
			item.State, item.To, item.Why = "ending", i.Worker, "its connections end, and it stops"
		case i.Worker != name || i.State != wire.Running && i.State != wire.WorkerScheduled:
			continue
		case i.Draining:
			item.State, item.Why = "ending", "it is no longer wanted"
		case underWay(i):
			item.State, item.To, item.Why = "moving", i.Moving.Worker, m.moveWaits(i)
		case m.jobOf(i) != nil:
			item.State, item.Why = "waiting", "it belongs to a job, of which no index runs twice: it goes on until it has ended"
		case t.stays[i.ID] != "":
			item.State, item.Why = "stays", t.stays[i.ID]
		default:
			item.State, item.Why = "waiting", t.goesFirst(i)
		}
		v.Left = append(v.Left, item)
	}
	return v
}

// moveWaits says what the move of an instance waits for.
func (m *model) moveWaits(i *wire.Instance) string {
	w := m.Workers[i.Moving.Worker]
	if w == nil {
		return "not ready there yet"
	}
	st, known := w.Status[i.ID]
	if !known || st.Incarnation != i.Moving.Incarnation {
		return "ordered, and the worker has not begun with it yet"
	}
	why := "not ready there yet"
	switch {
	case st.Why != "":
		why += ": " + st.Why
	case st.Phase == wire.PhasePending:
		why += ": it has not started"
	case st.Phase == wire.PhaseRunning && !st.Ready:
		why += ": it runs, and its readiness check has not passed"
	}
	if st.Restarts > 0 {
		why += fmt.Sprintf(" (started again %d times)", st.Restarts)
	}
	return why
}

// goesFirst says which instance of the same service moves before i.
func (t *tx) goesFirst(i *wire.Instance) string {
	if t.m.Alone {
		return "nobody is heard, so nothing is moved"
	}
	for _, o := range t.Instances() {
		if o.App == i.App && o.Service == i.Service && o.ID != i.ID && (underWay(o) || o.Leaving != nil) {
			return o.ID + " moves first"
		}
	}
	return "another of its service moves first"
}

func cordonUnstored(err error) error {
	return wire.Problemf(507, "not-stored", "free some space or repair the disk of the cluster, look (verge get workers), then try again",
		"it may not be stored", "%v", err)
}
