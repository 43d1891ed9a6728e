package router

import (
	"context"
	"log/slog"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/data"
	"github.com/verge-edge/verge/internal/wire"
)

// testServices are those of a worker that reaches nobody.
func testServices(t *testing.T) *Services {
	t.Helper()
	return New(Options{
		Worker: "a", Cluster: "edge", Log: slog.New(slog.DiscardHandler),
		Spawn:  func(func(context.Context)) bool { return false },
		Dialer: data.NewDialer("edge", nil, nil, nil, &data.Paths{}),
	})
}

// behind is an instance of another worker.
func behind(id wire.InstanceID, worker, addr string) wire.Endpoint {
	return wire.Endpoint{Instance: id, Cluster: "edge", Worker: worker, Address: addr}
}

// testRoute is app.web, routed by request.
func testRoute(endpoints ...wire.Endpoint) wire.Route {
	return wire.Route{
		V: 1, App: "app", Service: "web", Endpoints: endpoints, Requests: wire.RequestRules{Needed: true},
		Ports: []api.Port{{Name: "http", Protocol: "http"}},
	}
}

func testRoutes(r *Services, routes []wire.Route) { r.Set(routes, func([]PublishedPort) {}) }

func endpointOf(r *Services, id wire.InstanceID) *Endpoint {
	for _, e := range r.Find("app.web").All() {
		if e.Instance == id {
			return e
		}
	}
	return nil
}
