package backend

import (
	"context"
	"errors"

	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Volumes implements rest.Backend.
func (b *Backend) Volumes(ctx context.Context, cluster, worker string) ([]rpc.VolumeView, error) {
	if cluster != b.ClusterName {
		return nil, rest.ElsewhereAt("asking for a worker", cluster)
	}
	return workers.Volumes(ctx, b.Core, worker)
}

// RemoveVolume implements rest.Backend.
func (b *Backend) RemoveVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef) error {
	if cluster != b.ClusterName {
		return rest.ElsewhereAt("removing a volume", cluster)
	}
	if !workers.HasWorker(b.Core, worker) {
		if was, err := b.removedVolume(ctx, worker, r); was || err != nil {
			return err // who knows that it will not come back may say so
		}
		return workers.NoWorker(b.ClusterName, worker)
	}
	if core.View(b.Core, func(m *state.Model) bool { return volumes.Keeps(m, worker, r) }) {
		return wire.Problemf(409, "volume-in-use", "delete what uses it first: verge describe instance/"+r.Instance,
			"the volume is in use", "%s is on worker %s, or belongs there, and names %s", r.Instance, worker, r.Name)
	}
	err := core.AskWorker(ctx, b.Core, worker, rpc.Ask{What: rpc.AskRemoveVolume, Worker: worker, Volume: &r},
		"the volume cannot be removed now", &struct{}{})
	var p *wire.Problem
	none := errors.As(err, &p) && p.Code == "no-such-volume"
	if err != nil && !none {
		return err
	}
	if was, werr := b.removedVolume(ctx, worker, r); was || werr != nil {
		return werr // where somebody had removed it by hand that is what was asked for, too
	}
	return err
}
