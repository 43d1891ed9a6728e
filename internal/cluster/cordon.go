package cluster

import (
	"context"
	"encoding/json"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// CordonWorker implements rest.Backend.
func (b backend) CordonWorker(ctx context.Context, cluster, name string, q wire.CordonRequest) (wire.Cordon, error) {
	now := time.Now()
	var cordon wire.Cordon
	err := b.setCordon(ctx, cluster, name, now, func(old *wire.Cordon) *wire.Cordon {
		next := rest.NextCordon(old, q, rest.Caller(ctx), now)
		cordon = *next
		return next
	})
	return cordon, err
}

// UncordonWorker implements rest.Backend.
func (b backend) UncordonWorker(ctx context.Context, cluster, name string) error {
	return b.setCordon(ctx, cluster, name, time.Now(), func(*wire.Cordon) *wire.Cordon { return nil })
}

// setCordon stores what change makes of a worker's cordon, where that is new.
func (b backend) setCordon(ctx context.Context, cluster, name string, now time.Time, change func(*wire.Cordon) *wire.Cordon) error {
	if cluster != b.name {
		return rest.Elsewhere("operating a worker of cluster "+cluster, "that cluster")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.reload(ctx, now); err != nil {
		return cordonUnstored(err)
	}
	w := b.m.workers[name]
	if w == nil {
		return wire.Problemf(404, "no-such-worker", "verge get workers", "there is no such worker", "%s is not in cluster %s", name, b.name)
	}
	next := w.workerRecord
	if next.Cordon = change(w.Cordon); rest.SameCordon(w.Cordon, next.Cordon) {
		return nil
	}
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if _, err := b.store.Commit(ctx, bus.Put(keyWorker+name, data)); b.wrote(err) != nil {
		return cordonUnstored(err)
	}
	w.workerRecord = next
	what := rest.CordonWords(next.Cordon, rest.Caller(ctx))
	b.events.Add(now, b.m.tier(), "worker/"+b.name+"/"+name, what)
	b.log.Info("worker "+what, "worker", name)
	loop.Poke(b.wake)
	loop.Poke(b.upChanged) // the root counts only what takes something new
	return nil
}

func cordonUnstored(err error) error {
	return wire.Problemf(507, "not-stored", "free some space or repair the disk of the cluster, look (verge get workers), then try again",
		"it may not be stored", "%v", err)
}

// CordonCluster implements rest.Backend.
func (b backend) CordonCluster(context.Context, string, wire.CordonRequest) (wire.Cordon, error) {
	return wire.Cordon{}, rest.Elsewhere("taking a cluster out of use", "the root")
}

// UncordonCluster implements rest.Backend.
func (b backend) UncordonCluster(context.Context, string) error {
	return rest.Elsewhere("taking a cluster into use", "the root")
}
