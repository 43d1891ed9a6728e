package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
)

// Leaving is the part of a Backend that takes nodes out. All of it is durable
// when it returns, and the node's connection is closed.
type Leaving interface {
	// RemoveWorker forgets a worker and frees its name. Without force it is refused
	// where something would be lost.
	RemoveWorker(ctx context.Context, cluster, worker string, force bool) error
	// RevokeWorker makes the key of a worker count no more; the worker stays, and
	// whoever joins again under its name is it.
	RevokeWorker(ctx context.Context, cluster, worker string) error
	// RevokePlugin makes all keys of a scheduler plugin count no more; whoever joins
	// again under its name is it.
	RevokePlugin(ctx context.Context, plugin string) error
	// RemoveCluster and RevokeCluster are the same for a cluster.
	RemoveCluster(ctx context.Context, cluster string, force bool) error
	RevokeCluster(ctx context.Context, cluster string) error
}

type (
	pluginInput struct {
		Plugin string `path:"plugin" maxLength:"63" doc:"name of the scheduler plugin"`
	}
	removeClusterInput struct {
		Cluster string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
		Force   bool   `query:"force" doc:"also where it is in use"`
	}
	removeWorkerInput struct {
		Cluster string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
		Worker  string `path:"worker" maxLength:"63" doc:"name of the worker"`
		Force   bool   `query:"force" doc:"also where it is in use"`
	}
)

func (s *Server) registerLeaving(api huma.API) {
	b := s.backend
	register(s, api, op("remove-worker", http.MethodDelete, "/v1/workers/{cluster}/{worker}", "Take a worker out", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *removeWorkerInput) (none, error) {
			return none{}, b.RemoveWorker(ctx, in.Cluster, in.Worker, in.Force)
		})
	register(s, api, op("revoke-worker", http.MethodPost, "/v1/workers/{cluster}/{worker}/revoke", "Make the key of a worker count no more", may(access.Operate, worker("cluster", "worker"))),
		func(ctx context.Context, in *workerInput) (none, error) {
			return none{}, b.RevokeWorker(ctx, in.Cluster, in.Worker)
		})
	register(s, api, op("revoke-plugin", http.MethodPost, "/v1/plugins/{plugin}/revoke", "Make the keys of a scheduler plugin count no more", may(access.Admit, about(func(*pluginInput) access.Object { return access.Object{Kind: access.Cluster} }))),
		func(ctx context.Context, in *pluginInput) (none, error) {
			return none{}, b.RevokePlugin(ctx, in.Plugin)
		})
	register(s, api, op("remove-cluster", http.MethodDelete, "/v1/clusters/{cluster}", "Take a cluster out", may(access.Manage, cluster("cluster"))),
		func(ctx context.Context, in *removeClusterInput) (none, error) {
			return none{}, b.RemoveCluster(ctx, in.Cluster, in.Force)
		})
	register(s, api, op("revoke-cluster", http.MethodPost, "/v1/clusters/{cluster}/revoke", "Make the key of a cluster count no more", may(access.Manage, cluster("cluster"))),
		func(ctx context.Context, in *clusterInput) (none, error) {
			return none{}, b.RevokeCluster(ctx, in.Cluster)
		})
}
