package backend

import (
	"context"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/views"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

var (
	_ rest.Workers = Backend{}
	_ rest.Routes  = Backend{}
	_ rest.Volumes = Backend{}
)

// askRoutes asks a cluster that lets itself be asked about a worker's routes or
// paths.
func (b Backend) askRoutes(ctx context.Context, cluster string, q rpc.Ask, out any) error {
	const title = "the worker cannot be asked now"
	if err := clusters.Details(b.Core, cluster, title); err != nil {
		return err
	}
	return views.Unanswered(core.Ask(ctx, b.Core, cluster, q, out), cluster, "worker-unavailable", title)
}

// Route implements rest.Backend: the worker's cluster asks it.
func (b Backend) Route(ctx context.Context, cluster, worker, app, service string) (r rpc.RouteReport, err error) {
	if err = b.askRoutes(ctx, cluster, rpc.Ask{What: rpc.AskRoute, Worker: worker, Instance: app + "." + service},
		&r); err != nil {
		return r, err
	}
	return r, wire.CheckVersion("the route on worker "+cluster+"/"+worker, r.V)
}

// Net implements rest.Backend: the worker's cluster asks it.
func (b Backend) Net(ctx context.Context, cluster, worker string) (r rpc.NetReport, err error) {
	if err = b.askRoutes(ctx, cluster, rpc.Ask{What: rpc.AskNet, Worker: worker}, &r); err != nil {
		return r, err
	}
	return r, wire.CheckVersion("the paths of worker "+cluster+"/"+worker, r.V)
}

// Workers implements rest.Backend.
func (b Backend) Workers(ctx context.Context) ([]rpc.WorkerView, error) {
	out, _ := views.Workers(ctx, b.Core, core.AskTimeout)
	if len(out) > 0 {
		return out, nil
	}
	for _, cl := range views.Seen(ctx, views.Clusters(b.Core)) {
		if cl.Aggregate != nil && !cl.Aggregate.Details {
			return nil, wire.Problemf(403, "kept-private",
				rest.ContextOf(cl.Name)+"; or its operator starts it with --share-details",
				"workers cannot be seen here", "cluster %s keeps its details to itself", cl.Name)
		}
	}
	return out, nil
}

// Entries implements rest.Backend.
func (b Backend) Entries(ctx context.Context, cluster, worker string) ([]rpc.EntryView, error) {
	if err := clusters.Details(b.Core, cluster, "the worker cannot be asked here"); err != nil {
		return nil, err
	}
	list := []rpc.EntryView{}
	err := core.Ask(ctx, b.Core, cluster, rpc.Ask{What: rpc.AskEntries, Worker: worker}, &list)
	return list, views.Unanswered(err, cluster, "worker-unavailable", "the worker cannot be asked now")
}

// CordonWorker implements rest.Backend. A worker belongs to the operator of its cluster,
// who lets the root pass this on, or does not (--share-details).
func (b Backend) CordonWorker(ctx context.Context, cluster, name string, q rpc.CordonRequest) (wire.Cordon, error) {
	var out wire.Cordon
	err := b.passOn(ctx, cluster, rpc.Ask{What: rpc.AskCordon, Worker: name,
		Cordon: &rpc.CordonAsk{By: rest.Caller(ctx), CordonRequest: q}}, &out)
	return out, err
}

// UncordonWorker implements rest.Backend.
func (b Backend) UncordonWorker(ctx context.Context, cluster, name string) error {
	return b.passOn(ctx, cluster, rpc.Ask{What: rpc.AskUncordon, Worker: name,
		Cordon: &rpc.CordonAsk{By: rest.Caller(ctx)}}, new(wire.Cordon))
}

// WorkerDrain implements rest.Backend.
func (b Backend) WorkerDrain(ctx context.Context, cluster, name string) (rpc.DrainView, error) {
	var out rpc.DrainView
	err := b.passOn(ctx, cluster, rpc.Ask{What: rpc.AskDrain, Worker: name}, &out)
	return out, err
}

// passOn asks the cluster of a worker for what it does itself, where it lets the root.
func (b Backend) passOn(ctx context.Context, cluster string, q rpc.Ask, out any) error {
	if err := clusters.Details(b.Core, cluster,
		"the worker cannot be taken out of use, or back, from here"); err != nil {
		return err
	}
	return views.Unanswered(core.Ask(ctx, b.Core, cluster, q, out), cluster, "worker-unavailable",
		"it is not known whether that was done")
}

// Volumes implements rest.Backend: the worker's cluster asks it.
func (b Backend) Volumes(ctx context.Context, cluster, worker string) ([]rpc.VolumeView, error) {
	const title = "its volumes cannot be listed now"
	if err := clusters.Details(b.Core, cluster, title); err != nil {
		return nil, err
	}
	list := []rpc.VolumeView{}
	err := core.Ask(ctx, b.Core, cluster, rpc.Ask{What: rpc.AskVolumes, Worker: worker}, &list)
	for i := range list {
		list[i].Cluster, list[i].Worker = cluster, worker // whatever it says
	}
	return list, views.Unanswered(err, cluster, "worker-unavailable", title)
}
