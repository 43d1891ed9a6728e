package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Operating is the part of a Backend that is about what runs already. Caller says
// who asks.
type Operating interface {
	// Scale changes how many replicas a service has, as an apply would that says
	// nothing else new; durable when it returns.
	Scale(ctx context.Context, app, service string, replicas int) (wire.ApplyResult, error)
	// Restart asks for a new run of what the request names; durable when it
	// returns.
	Restart(ctx context.Context, app string, r wire.RestartRequest) (wire.RestartResult, error)
	// Job does what the request says about a job; durable when it returns.
	Job(ctx context.Context, app, service string, r wire.JobRequest) (wire.JobResult, error)
	// CordonWorker and CordonCluster take one out of use; durable when they
	// return. Doing it again changes what is new in the request.
	CordonWorker(ctx context.Context, cluster, worker string, r wire.CordonRequest) (wire.Cordon, error)
	CordonCluster(ctx context.Context, cluster string, r wire.CordonRequest) (wire.Cordon, error)
	// UncordonWorker and UncordonCluster take that back, a drain with it.
	UncordonWorker(ctx context.Context, cluster, worker string) error
	UncordonCluster(ctx context.Context, cluster string) error
	// AllowGateway lets a worker be a gateway with TLS, which is given the certificates
	// of hosts and their keys; DenyGateway takes that back. Durable when they return.
	AllowGateway(ctx context.Context, cluster, worker string) (wire.GatewayGrant, error)
	DenyGateway(ctx context.Context, cluster, worker string) error
	// WorkerDrain and ClusterDrain say how far a drain is.
	WorkerDrain(ctx context.Context, cluster, worker string) (wire.DrainView, error)
	ClusterDrain(ctx context.Context, cluster string) (wire.DrainView, error)
}

type scaleInput struct {
	App     string `path:"app" maxLength:"63" doc:"name of the application"`
	Service string `path:"service" maxLength:"63" doc:"name of the service"`
	Local   bool   `query:"local" doc:"at a cluster whose root is connected: the change is meant for this site alone"`
	Body    wire.ScaleRequest
}

type restartInput struct {
	App   string `path:"app" maxLength:"63" doc:"name of the application"`
	Local bool   `query:"local" doc:"at a cluster whose root is connected: the change is meant for this site alone"`
	Body  wire.RestartRequest
}

type jobInput struct {
	App     string `path:"app" maxLength:"63" doc:"name of the application"`
	Service string `path:"service" maxLength:"63" doc:"name of the service"`
	Local   bool   `query:"local" doc:"at a cluster whose root is connected: the change is meant for this site alone"`
	Body    wire.JobRequest
}

type clusterInput struct {
	Cluster string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
}

type cordonClusterInput struct {
	Cluster string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
	Body    wire.CordonRequest
}

type cordonWorkerInput struct {
	Cluster string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
	Worker  string `path:"worker" maxLength:"63" doc:"name of the worker"`
	Body    wire.CordonRequest
}

func (s *Server) registerOperating(api huma.API) {
	b := s.backend
	register(s, api, op("scale-service", http.MethodPut, "/v1/applications/{app}/services/{service}/replicas", "Change how many replicas a service has", may(access.Scale, app("app"))),
		func(ctx context.Context, in *scaleInput) (wire.ApplyResult, error) {
			return b.Scale(WithLocal(ctx, in.Local), in.App, in.Service, in.Body.Replicas)
		})
	register(s, api, op("restart-application", http.MethodPost, "/v1/applications/{app}/restart", "Start instances again, one after the other", may(access.Restart, app("app"))),
		func(ctx context.Context, in *restartInput) (wire.RestartResult, error) {
			return b.Restart(WithLocal(ctx, in.Local), in.App, in.Body)
		})
	register(s, api, op("operate-job", http.MethodPost, "/v1/applications/{app}/jobs/{service}", "Run, stop, suspend or resume a job", may(access.Restart, app("app"))),
		func(ctx context.Context, in *jobInput) (wire.JobResult, error) {
			return b.Job(WithLocal(ctx, in.Local), in.App, in.Service, in.Body)
		})
	register(s, api, op("cordon-worker", http.MethodPut, "/v1/workers/{cluster}/{worker}/cordon", "Take a worker out of use", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *cordonWorkerInput) (wire.Cordon, error) {
			return b.CordonWorker(ctx, in.Cluster, in.Worker, in.Body)
		})
	register(s, api, op("uncordon-worker", http.MethodDelete, "/v1/workers/{cluster}/{worker}/cordon", "Take a worker into use again", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *workerInput) (none, error) {
			return none{}, b.UncordonWorker(ctx, in.Cluster, in.Worker)
		})
	register(s, api, op("allow-gateway", http.MethodPut, "/v1/workers/{cluster}/{worker}/gateway", "Let a worker be a gateway with TLS", may(access.Admit, worker("cluster", "worker"))),
		func(ctx context.Context, in *workerInput) (wire.GatewayGrant, error) {
			return b.AllowGateway(ctx, in.Cluster, in.Worker)
		})
	register(s, api, op("deny-gateway", http.MethodDelete, "/v1/workers/{cluster}/{worker}/gateway", "Let a worker be a gateway with TLS no more", may(access.Admit, worker("cluster", "worker"))),
		func(ctx context.Context, in *workerInput) (none, error) {
			return none{}, b.DenyGateway(ctx, in.Cluster, in.Worker)
		})
	register(s, api, op("cordon-cluster", http.MethodPut, "/v1/clusters/{cluster}/cordon", "Take a cluster out of use", may(access.Manage, cluster("cluster"))),
		func(ctx context.Context, in *cordonClusterInput) (wire.Cordon, error) {
			return b.CordonCluster(ctx, in.Cluster, in.Body)
		})
	register(s, api, op("uncordon-cluster", http.MethodDelete, "/v1/clusters/{cluster}/cordon", "Take a cluster into use again", may(access.Manage, cluster("cluster"))),
		func(ctx context.Context, in *clusterInput) (none, error) {
			return none{}, b.UncordonCluster(ctx, in.Cluster)
		})
	register(s, api, op("get-worker-drain", http.MethodGet, "/v1/workers/{cluster}/{worker}/drain", "What is still on a worker that is drained", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *workerInput) (wire.DrainView, error) {
			return b.WorkerDrain(ctx, in.Cluster, in.Worker)
		})
	register(s, api, op("get-cluster-drain", http.MethodGet, "/v1/clusters/{cluster}/drain", "What is still in a cluster that is drained", may(access.Manage, cluster("cluster"))),
		func(ctx context.Context, in *clusterInput) (wire.DrainView, error) {
			return b.ClusterDrain(ctx, in.Cluster)
		})
}
