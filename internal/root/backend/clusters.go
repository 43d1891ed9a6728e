package backend

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/views"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

var (
	_ rest.Clusters  = Backend{}
	_ rest.Authority = Backend{}
	_ rest.Joining   = Backend{}
)

// CordonCluster implements rest.Backend.
func (b Backend) CordonCluster(ctx context.Context, name string, q rpc.CordonRequest) (wire.Cordon, error) {
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
func (b Backend) UncordonCluster(ctx context.Context, name string) error {
	return b.setCordon(ctx, name, time.Now(), func(*wire.Cordon) *wire.Cordon { return nil })
}

// setCordon stores what change makes of a cluster's cordon, where that is new.
func (b Backend) setCordon(ctx context.Context, name string, now time.Time,
	change func(*wire.Cordon) *wire.Cordon) error {
	return core.Update(ctx, b.Core, now, func(t *state.Tx) error {
		c := t.Model.Clusters[name]
		if c == nil {
			return clusters.NoCluster(name)
		}
		next := c.ClusterRecord
		if next.Cordon = change(c.Cordon); rest.SameCordon(c.Cordon, next.Cordon) {
			return nil
		}
		state.ClusterTable.Put(t.Rows, name, &next)
		t.Event(event.ClusterCordon, name, "%s", rest.CordonWords(next.Cordon, rest.Caller(ctx)))
		return nil
	})
}

// ClusterDrain implements rest.Backend.
func (b Backend) ClusterDrain(ctx context.Context, name string) (rpc.DrainView, error) {
	return core.View2(b.Core, func(m *state.Model) (rpc.DrainView, error) {
		now := time.Now()
		if err := core.Reload(ctx, b.Core, now); err != nil {
			return rpc.DrainView{}, core.Unstored(err)
		}
		if m.Clusters[name] == nil {
			return rpc.DrainView{}, clusters.NoCluster(name)
		}
		return clusters.DrainView(m, name, now), nil
	})
}

// Clusters implements rest.Backend.
func (b Backend) Clusters(context.Context) ([]apiv1.ClusterView, error) {
	return views.Clusters(b.Core), nil
}
