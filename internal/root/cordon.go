package root

import (
	"context"
	"encoding/json"
	"time"

	"github.com/verge-edge/verge/internal/bus"
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
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if _, err := b.store.Commit(ctx, bus.Put(keyCluster+name, data)); b.wrote(err) != nil {
		return unstored(err)
	}
	c.clusterRecord = next
	what := rest.CordonWords(next.Cordon, rest.Caller(ctx))
	b.events.Add(now, tier, "cluster/"+name, what)
	b.log.Info("cluster "+what, "cluster", name)
	loop.Poke(b.wake)
	return nil
}

// CordonWorker implements rest.Backend. A worker belongs to the operator of its
// cluster, whose record says so; the root would have to be believed.
func (b backend) CordonWorker(_ context.Context, cluster, _ string, _ wire.CordonRequest) (wire.Cordon, error) {
	return wire.Cordon{}, rest.Elsewhere("taking a worker out of use", "its cluster, "+cluster)
}

// UncordonWorker implements rest.Backend.
func (b backend) UncordonWorker(_ context.Context, cluster, _ string) error {
	return rest.Elsewhere("taking a worker into use", "its cluster, "+cluster)
}
