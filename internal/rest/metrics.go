package rest

import (
	"context"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Metrics is the part of a backend that measures what instances use, when it is asked.
// What cannot be measured is listed all the same, with the reason.
type Metrics interface {
	// TopInstances, of one application where that is not "".
	TopInstances(ctx context.Context, app string) ([]rpc.InstanceTop, error)
	TopWorkers(ctx context.Context) ([]rpc.WorkerTopView, error)
	TopClusters(ctx context.Context) ([]apiv1.ClusterTop, error)
	// WorkerMetrics are a worker's figures of this moment, in the text format of
	// Prometheus. Workers have no port of their own to be scraped at.
	WorkerMetrics(ctx context.Context, cluster, worker string) ([]byte, error)
}

// TopIn asks what instances use.
type TopIn struct {
	App string `query:"app" maxLength:"63" doc:"only of this application"`
}

// What is measured.
var (
	TopInstances = define("top-instances", "GET /v1/top/instances", "What instances use",
		each(func(v rpc.InstanceTop) access.Object {
			return access.Object{Kind: access.Instance, Name: v.ID, Namespace: v.Namespace, Cluster: v.Cluster}
		}),
		func(ctx context.Context, b Metrics, in *TopIn) (Items[rpc.InstanceTop], error) {
			return list(b.TopInstances(ctx, in.App))
		})
	TopWorkers = define("top-workers", "GET /v1/top/workers", "What the instances on workers use",
		each(func(v rpc.WorkerTopView) access.Object {
			return access.Object{Kind: access.Worker, Name: v.Cluster + "/" + v.Name, Cluster: v.Cluster}
		}),
		func(ctx context.Context, b Metrics, _ *None) (Items[rpc.WorkerTopView], error) {
			return list(b.TopWorkers(ctx))
		})
	TopClusters = define("top-clusters", "GET /v1/top/clusters", "What the instances in clusters use",
		each(func(v apiv1.ClusterTop) access.Object {
			return access.Object{Kind: access.Cluster, Name: v.Name, Cluster: v.Name}
		}),
		func(ctx context.Context, b Metrics, _ *None) (Items[apiv1.ClusterTop], error) {
			return list(b.TopClusters(ctx))
		})

	// Figures are sums over everything, with the names of clusters.
	Figures       = stream("metrics", "GET /metrics", may(access.Measure, system))
	FigureTargets = streamOf[Workers]("metrics-targets", "GET /metrics/targets", anyone)
	WorkerFigures = streamOf[Metrics]("worker-metrics", "GET /v1/workers/{cluster}/{worker}/metrics", may(access.Measure, worker("cluster", "worker")))
)
