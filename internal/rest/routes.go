package rest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Routing is the part of a Backend that is about how a worker routes and reaches
// others. It is asked at the moment of the question and measures then.
type Routing interface {
	// Route is how a service of an application is routed on a worker.
	Route(ctx context.Context, cluster, worker, app, service string) (wire.RouteReport, error)
	// Net is how a worker reaches those others to which it has routes.
	Net(ctx context.Context, cluster, worker string) (wire.NetReport, error)
}

type routeInput struct {
	Cluster string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
	Worker  string `path:"worker" maxLength:"63" doc:"name of the worker"`
	App     string `path:"app" maxLength:"63" doc:"name of the application"`
	Service string `path:"service" maxLength:"63" doc:"name of the service"`
}

func (s *Server) registerRouting(api huma.API) {
	b := s.backend
	register(s, api, op("get-route", http.MethodGet, "/v1/workers/{cluster}/{worker}/routes/{app}/{service}", "How a worker routes a service", may(access.See, worker("cluster", "worker"))),
		func(ctx context.Context, in *routeInput) (wire.RouteReport, error) {
			return b.Route(ctx, in.Cluster, in.Worker, in.App, in.Service)
		})
	register(s, api, op("get-net", http.MethodGet, "/v1/workers/{cluster}/{worker}/net", "How a worker reaches others", may(access.See, worker("cluster", "worker"))),
		func(ctx context.Context, in *workerInput) (wire.NetReport, error) {
			return b.Net(ctx, in.Cluster, in.Worker)
		})
}

// Route is how a service is routed on a worker; see Routing.
func (c *Client) Route(ctx context.Context, cluster, worker, app, service string) (wire.RouteReport, error) {
	return get[wire.RouteReport](ctx, c, call{path: workerPath(cluster, worker) + "/routes/" + url.PathEscape(app) + "/" + url.PathEscape(service)})
}

// Net is how a worker reaches others; see Routing.
func (c *Client) Net(ctx context.Context, cluster, worker string) (wire.NetReport, error) {
	return get[wire.NetReport](ctx, c, call{path: workerPath(cluster, worker) + "/net"})
}
