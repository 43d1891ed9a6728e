package backend

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/views"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

var _ rest.Metrics = Backend{}

// WorkerMetrics implements rest.Backend: the worker's cluster asks it.
func (b Backend) WorkerMetrics(ctx context.Context, cluster, worker string) ([]byte, error) {
	const title = "the worker cannot be measured now"
	if err := clusters.Details(b.Core, cluster, title); err != nil {
		return nil, err
	}
	var page rpc.MetricsPage
	if err := core.Ask(ctx, b.Core, cluster, rpc.Ask{What: rpc.AskMetrics, Worker: worker}, &page); err != nil {
		return nil, views.Unanswered(err, cluster, "worker-unavailable", title)
	}
	if err := wire.CheckVersion("the figures of worker "+cluster+"/"+worker, page.V); err != nil {
		return nil, err
	}
	text, err := obs.Unpack(page.Text)
	if err != nil {
		return nil, fmt.Errorf("the answer of worker %s/%s: %w", cluster, worker, err)
	}
	return text, nil
}

// TopInstances implements rest.Backend: those of the clusters that let themselves
// be asked are measured, of the others it is said why not.
func (b Backend) TopInstances(ctx context.Context, app string) ([]rpc.InstanceTop, error) {
	list, err := b.Instances(ctx, app, "")
	if err != nil {
		return nil, err
	}
	// What who asks may not see is not measured for it either.
	list = access.Visible(access.From(ctx), list, func(v apiv1.InstanceView) access.Object {
		return access.Object{Kind: access.Instance, Name: v.ID, Namespace: v.Namespace, Cluster: v.Cluster}
	})
	held := make(map[wire.InstanceID]string, len(list))
	used := map[string]bool{}
	for _, i := range list {
		held[i.ID], used[i.Cluster] = i.Cluster, true
	}
	by := map[wire.InstanceID]rpc.InstanceTop{}
	var mu sync.Mutex
	clusters := slices.DeleteFunc(views.Clusters(b.Core), func(v apiv1.ClusterView) bool { return !used[v.Name] })
	problems := views.EachCluster(b.Core, clusters, func(name string) error {
		return views.Pages(ctx, b.Core, name, rpc.Ask{What: rpc.AskTop, Worker: app},
			func(p rpc.TopPage) (last string) {
				mu.Lock()
				defer mu.Unlock()
				for _, v := range p.Instances {
					if last = v.ID; held[v.ID] == name { // of others it has nothing to say
						v.Cluster = name
						by[v.ID] = v
					}
				}
				return last
			})
	})
	out := make([]rpc.InstanceTop, 0, len(list))
	for _, i := range list {
		v := rpc.InstanceTop{ID: i.ID, Cluster: i.Cluster, Worker: i.Worker, State: i.State, AgeSeconds: i.AgeSeconds,
			Problem: problems[i.Cluster]}
		switch m, ok := by[i.ID]; {
		case ok:
			v = m
		case i.Cluster == "":
			v.Problem = "it is in no cluster"
		case v.Problem == "":
			v.Problem = "its cluster does not have it yet"
		}
		v.Namespace = i.Namespace // of which the root is sure
		views.Reserved(b.Core, &v, i.App, i.Service)
		out = append(out, v)
	}
	return out, nil
}

// TopWorkers implements rest.Backend. A cluster that does not let itself be asked,
// or does not answer, has one line without a name that says so.
func (b Backend) TopWorkers(ctx context.Context) ([]rpc.WorkerTopView, error) {
	clusters := views.Seen(ctx, views.Clusters(b.Core))
	by, problems := views.TopWorkers(ctx, b.Core, clusters)
	out := []rpc.WorkerTopView{}
	for _, cl := range clusters {
		out = append(out, by[cl.Name]...)
		if why := problems[cl.Name]; why != "" {
			out = append(out, rpc.WorkerTopView{Cluster: cl.Name, Problem: why, AgeSeconds: cl.AgeSeconds})
		}
	}
	return out, nil
}

// TopClusters implements rest.Backend. Of a cluster that keeps its details to
// itself it shows what is reserved and what there is, as its aggregate says.
func (b Backend) TopClusters(ctx context.Context) ([]apiv1.ClusterTop, error) {
	clusters := views.Seen(ctx, views.Clusters(b.Core))
	by, problems := views.TopWorkers(ctx, b.Core, clusters)
	out := []apiv1.ClusterTop{}
	for _, cl := range clusters {
		v := apiv1.SumTop(cl.Name, by[cl.Name])
		v.Problem = problems[cl.Name]
		if agg := cl.Aggregate; agg != nil {
			if v.Workers == 0 {
				v.Workers, v.Instances, v.Capacity = agg.Workers, agg.Instances, agg.Capacity
				v.Reserved.CPU = max(0, v.Capacity.CPU-api.CPU(agg.CPU.Sum))
				v.Reserved.Memory = max(0, v.Capacity.Memory-api.Bytes(agg.Memory.Sum))
			}
		}
		v.AgeSeconds = cl.AgeSeconds
		out = append(out, v)
	}
	return out, nil
}
