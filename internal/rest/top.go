package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Using is the part of a Backend that measures what instances use, when it is asked.
// What cannot be measured is listed all the same, with the reason.
type Using interface {
	// TopInstances, of one application where that is not "".
	TopInstances(ctx context.Context, app string) ([]wire.InstanceTop, error)
	TopWorkers(ctx context.Context) ([]wire.WorkerTopView, error)
	TopClusters(ctx context.Context) ([]wire.ClusterTop, error)
}

type topInput struct {
	App string `query:"app" maxLength:"63" doc:"only of this application"`
}

func (s *Server) registerUsing(api huma.API) {
	b := s.backend
	register(s, api, op("top-instances", http.MethodGet, "/v1/top/instances", "What instances use", each(func(v wire.InstanceTop) access.Object {
		return access.Object{Kind: access.Instance, Name: v.ID, Namespace: v.Namespace, Cluster: v.Cluster}
	})), func(ctx context.Context, in *topInput) (items[wire.InstanceTop], error) {
		return list(b.TopInstances(ctx, in.App))
	})
	register(s, api, op("top-workers", http.MethodGet, "/v1/top/workers", "What the instances on workers use", each(func(v wire.WorkerTopView) access.Object {
		return access.Object{Kind: access.Worker, Name: v.Cluster + "/" + v.Name, Cluster: v.Cluster}
	})), func(ctx context.Context, _ *none) (items[wire.WorkerTopView], error) { return list(b.TopWorkers(ctx)) })
	register(s, api, op("top-clusters", http.MethodGet, "/v1/top/clusters", "What the instances in clusters use", each(func(v wire.ClusterTop) access.Object {
		return access.Object{Kind: access.Cluster, Name: v.Name, Cluster: v.Name}
	})), func(ctx context.Context, _ *none) (items[wire.ClusterTop], error) { return list(b.TopClusters(ctx)) })
}
