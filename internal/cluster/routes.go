package cluster

import (
	"context"
	"encoding/json"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// askRoutes passes a question about routes or paths on to the worker. The answer
// is the worker's, as it is.
func (c *core) askRoutes(ctx context.Context, q wire.Ask, out any) error {
	if !c.hasWorker(q.Worker) {
		return wire.Problemf(404, "no-such-worker", "verge get workers", "there is no such worker", "%s is not in cluster %s", q.Worker, c.name)
	}
	return c.askWorker(ctx, q.Worker, q, "the worker cannot be asked now", out)
}

// routesPage is what a root is answered.
func (c *core) routesPage(ctx context.Context, q wire.Ask) (page json.RawMessage, err error) {
	err = c.askRoutes(ctx, q, &page)
	return page, err
}

// Route implements rest.Backend.
func (b backend) Route(ctx context.Context, cluster, worker, app, service string) (r wire.RouteReport, err error) {
	if cluster != b.name {
		return r, rest.ElsewhereAt("asking a worker", cluster)
	}
	if err = b.askRoutes(ctx, wire.Ask{What: wire.AskRoute, Worker: worker, Instance: app + "." + service}, &r); err != nil {
		return r, err
	}
	return r, wire.CheckVersion("the route on worker "+worker, r.V)
}

// Net implements rest.Backend.
func (b backend) Net(ctx context.Context, cluster, worker string) (r wire.NetReport, err error) {
	if cluster != b.name {
		return r, rest.ElsewhereAt("asking a worker", cluster)
	}
	if err = b.askRoutes(ctx, wire.Ask{What: wire.AskNet, Worker: worker}, &r); err != nil {
		return r, err
	}
	return r, wire.CheckVersion("the paths of worker "+worker, r.V)
}
