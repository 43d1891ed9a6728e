package resttest

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
)

// Route is the one of Routes for that worker and service.
func (f *Fake) Route(_ context.Context, cluster, worker, app, service string) (wire.RouteReport, error) {
	list, err := all(f, "route", &f.Routes)
	for _, r := range list {
		if r.Cluster == cluster && r.Worker == worker && r.App == app && r.Service == service {
			return r, err
		}
	}
	if err == nil {
		err = wire.Problemf(404, "no-route", "verge get services lists them", "this worker has no route to the service", "%s.%s", app, service)
	}
	return wire.RouteReport{}, err
}

// Net is the one of Nets for that worker.
func (f *Fake) Net(_ context.Context, cluster, worker string) (wire.NetReport, error) {
	list, err := all(f, "net", &f.Nets)
	for _, n := range list {
		if n.Cluster == cluster && n.Worker == worker {
			return n, err
		}
	}
	if err == nil {
		err = missing("worker", cluster+"/"+worker)
	}
	return wire.NetReport{}, err
}
