package proxy

import (
	"context"
	"log/slog"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// testServices are those of a worker that reaches nobody.
func testServices(t *testing.T) *services {
	t.Helper()
	return newServices(servicesOptions{
		Worker: "a", Cluster: "edge", Log: slog.New(slog.DiscardHandler),
		Spawn:  func(func(context.Context)) bool { return false },
		Dialer: newStreamDialer("edge", nil, nil, nil, &paths{}),
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

func testRoutes(r *services, routes []wire.Route) { r.set(routes, func([]publishedPort) {}) }

func endpointOf(r *services, id wire.InstanceID) *endpoint {
	for _, e := range r.find("app.web").all() {
		if e.Instance == id {
			return e
		}
	}
	return nil
}
