package backend

import (
	"context"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// TopInstances implements rest.Backend.
func (b *Backend) TopInstances(ctx context.Context, app string) ([]rpc.InstanceTop, error) {
	var out []rpc.InstanceTop
	for after := ""; ; {
		p := views.TopInstances(ctx, b.Core, app, after)
		out = append(out, p.Instances...)
		if !p.More || ctx.Err() != nil {
			return out, ctx.Err()
		}
		after = out[len(out)-1].ID
	}
}

// TopWorkers implements rest.Backend.
func (b *Backend) TopWorkers(ctx context.Context) ([]rpc.WorkerTopView, error) {
	var out []rpc.WorkerTopView
	for after := ""; ; {
		p := views.TopWorkers(ctx, b.Core, after)
		out = append(out, p.Workers...)
		if !p.More || ctx.Err() != nil {
			return out, ctx.Err()
		}
		after = out[len(out)-1].Name
	}
}

// TopClusters implements rest.Backend: itself.
func (b *Backend) TopClusters(ctx context.Context) ([]apiv1.ClusterTop, error) {
	workers, err := b.TopWorkers(ctx)
	if err != nil {
		return nil, err
	}
	return []apiv1.ClusterTop{apiv1.SumTop(b.ClusterName, workers)}, nil
}
