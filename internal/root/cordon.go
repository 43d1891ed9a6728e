package root

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// CordonCluster implements rest.Backend.
func (b backend) CordonCluster(ctx context.Context, name string, q wire.CordonRequest) (wire.Cordon, error) {
	now := time.Now()
	var cordon wire.Cordon
	err := b.setCordon(ctx, name, now, func(old *wire.Cordon) *wire.Cordon {
		next := rest.NextCordon(old, q, rest.Caller(ctx), now)
		cordon = *next
		return next
	})
	return cordon, err
}

// UncordonCluster implements rest.Backend.
func (b backend) UncordonCluster(ctx context.Context, name string) error {
	return b.setCordon(ctx, name, time.Now(), func(*wire.Cordon) *wire.Cordon { return nil })
}

// setCordon stores what change makes of a cluster's cordon, where that is new.
func (b backend) setCordon(ctx context.Context, name string, now time.Time, change func(*wire.Cordon) *wire.Cordon) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.reload(ctx, now); err != nil {
		return unstored(err)
	}
	c := b.m.clusters[name]
	if c == nil {
		return wire.Problemf(404, "no-such-cluster", "verge get clusters", "there is no such cluster", "%s is not known", name)
	}
	next := c.clusterRecord
	if next.Cordon = change(c.Cordon); rest.SameCordon(c.Cordon, next.Cordon) {
		return nil
	}
	t := b.m.begin()
	clusterTable.Put(t.rows, name, &next)
	if err := b.keeper.Whole(ctx, t); err != nil {
		return unstored(err)
	}
	c.clusterRecord = next
	what := rest.CordonWords(next.Cordon, rest.Caller(ctx))
	b.events.Add(now, tier, "cluster/"+name, what)
	b.log.Info("cluster "+what, "cluster", name)
	loop.Poke(b.wake)
	return nil
}

// CordonWorker implements rest.Backend. A worker belongs to the operator of its cluster,
// who lets the root pass this on, or does not (--share-details).
func (b backend) CordonWorker(ctx context.Context, cluster, name string, q wire.CordonRequest) (wire.Cordon, error) {
	var out wire.Cordon
	err := b.passOn(ctx, cluster, wire.Ask{What: wire.AskCordon, Worker: name, Cordon: &wire.CordonAsk{By: rest.Caller(ctx), CordonRequest: q}}, &out)
	return out, err
}

// UncordonWorker implements rest.Backend.
func (b backend) UncordonWorker(ctx context.Context, cluster, name string) error {
	return b.passOn(ctx, cluster, wire.Ask{What: wire.AskUncordon, Worker: name, Cordon: &wire.CordonAsk{By: rest.Caller(ctx)}}, new(wire.Cordon))
}

// WorkerDrain implements rest.Backend.
func (b backend) WorkerDrain(ctx context.Context, cluster, name string) (wire.DrainView, error) {
	var out wire.DrainView
	err := b.passOn(ctx, cluster, wire.Ask{What: wire.AskDrain, Worker: name}, &out)
	return out, err
}

// passOn asks the cluster of a worker for what it does itself, where it lets the root.
func (b backend) passOn(ctx context.Context, cluster string, q wire.Ask, out any) error {
	if err := b.details(cluster, "the worker cannot be taken out of use, or back, from here"); err != nil {
		return err
	}
	return unanswered(b.ask(ctx, cluster, q, out), cluster, "worker-unavailable", "it is not known whether that was done")
}

// ClusterDrain implements rest.Backend.
func (b backend) ClusterDrain(ctx context.Context, name string) (wire.DrainView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if err := b.reload(ctx, now); err != nil {
		return wire.DrainView{}, unstored(err)
	}
	if b.m.clusters[name] == nil {
		return wire.DrainView{}, wire.Problemf(404, "no-such-cluster", "verge get clusters", "there is no such cluster", "%s is not known", name)
	}
	return b.m.drainView(name, now), nil
}

// drainView says what is still in a cluster.
func (m *model) drainView(name string, now time.Time) wire.DrainView {
	c := m.clusters[name]
	v := wire.DrainView{Left: []wire.DrainItem{}, Source: tier, AgeSeconds: -1}
	if c.everHeard {
		v.AgeSeconds = now.Sub(c.heard).Seconds()
	}
	if c.draining() {
		v.Cordon = c.Cordon
	}
	t := m.reads()
	all := t.instances("")
	replaces := map[wire.InstanceID]*wire.Instance{}
	stuck := map[string]string{} // why the next of a service finds no cluster, by app.service
	for _, i := range all {
		if i.Replaces != "" && !i.Draining {
			replaces[i.Replaces] = i
		}
	}
	for _, i := range all {
		if r := replaces[i.ID]; i.Cluster == name && r != nil && r.Cluster == "" && r.Reason != "" {
			stuck[i.App+"."+i.Service] = r.Reason
		}
	}
	for _, i := range all {
		rep := c.seen[i.ID]
		if i.Cluster != name || rep != nil && rep.State == wire.Terminated && !i.Draining {
			continue
		}
		v.Left = append(v.Left, m.drainItem(i, c, replaces[i.ID], stuck[i.App+"."+i.Service]))
	}
	return v
}

func (m *model) drainItem(i *wire.Instance, c *cluster, next *wire.Instance, stuck string) wire.DrainItem {
	item := wire.DrainItem{Instance: i.ID}
	switch app := m.apps[i.App]; {
	case i.Draining:
		item.State, item.Why = "ending", "it stops in its orderly way"
	case app != nil && app.Spec.Services[i.Service] != nil && app.Spec.Services[i.Service].Pins():
		item.State, item.Why = "stays", "it has a volume in that cluster and nowhere else"
	case i.Unreachable || c.suspect:
		item.State, item.Why = "waiting", "the cluster is away; what it runs ends when it is back"
	case stuck != "":
		item.State, item.Why = "stays", stuck
	case next != nil && next.Cluster != "":
		item.State, item.To, item.Why = "moving", next.Cluster, next.ID+" is not ready yet"
		if cur := m.merged(next); cur.Reason != "" {
			item.Why += ": " + cur.Reason
		}
	default:
		item.State, item.Why = "waiting", "another of its service moves first"
	}
	return item
}

// draining says whether everything is to move out of a cluster.
func (c *cluster) draining() bool { return c != nil && c.Cordon != nil && c.Cordon.Drain }
