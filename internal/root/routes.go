package root

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
)

// askRoutes asks a cluster that lets itself be asked about a worker's routes or
// paths.
func (b backend) askRoutes(ctx context.Context, cluster string, q wire.Ask, out any) error {
	const title = "the worker cannot be asked now"
	if err := b.details(cluster, title); err != nil {
		return err
	}
	return unanswered(b.ask(ctx, cluster, q, out), cluster, "worker-unavailable", title)
}

// Route implements rest.Backend: the worker's cluster asks it.
func (b backend) Route(ctx context.Context, cluster, worker, app, service string) (r wire.RouteReport, err error) {
	if err = b.askRoutes(ctx, cluster, wire.Ask{What: wire.AskRoute, Worker: worker, Instance: app + "." + service}, &r); err != nil {
		return r, err
	}
	return r, wire.CheckVersion("the route on worker "+cluster+"/"+worker, r.V)
}

// Net implements rest.Backend: the worker's cluster asks it.
func (b backend) Net(ctx context.Context, cluster, worker string) (r wire.NetReport, err error) {
	if err = b.askRoutes(ctx, cluster, wire.Ask{What: wire.AskNet, Worker: worker}, &r); err != nil {
		return r, err
	}
	return r, wire.CheckVersion("the paths of worker "+cluster+"/"+worker, r.V)
}
