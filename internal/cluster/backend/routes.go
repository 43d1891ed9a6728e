package backend

import (
	"context"

	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Route implements rest.Backend.
func (b *Backend) Route(ctx context.Context, cluster, worker, app, service string) (r rpc.RouteReport, err error) {
	if cluster != b.ClusterName {
		return r, rest.ElsewhereAt("asking a worker", cluster)
	}
	if err = workers.AskRoutes(ctx, b.Core, rpc.Ask{What: rpc.AskRoute, Worker: worker, Instance: app + "." + service},
		&r); err != nil {
		return r, err
	}
	return r, wire.CheckVersion("the route on worker "+worker, r.V)
}

// Net implements rest.Backend.
func (b *Backend) Net(ctx context.Context, cluster, worker string) (r rpc.NetReport, err error) {
	if cluster != b.ClusterName {
		return r, rest.ElsewhereAt("asking a worker", cluster)
	}
	if err = workers.AskRoutes(ctx, b.Core, rpc.Ask{What: rpc.AskNet, Worker: worker}, &r); err != nil {
		return r, err
	}
	return r, wire.CheckVersion("the paths of worker "+worker, r.V)
}
