package routes

import (
	"slices"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/enginetest"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// router keeps the routes that it is given.
type router struct {
	routes []wire.Route
	times  int
}

func (r *router) SetRoutes(routes []wire.Route) { r.routes, r.times = routes, r.times+1 }

func (r *router) endpoints() (out []string) {
	for i := range r.routes {
		for _, e := range r.routes[i].Endpoints {
			name := e.Instance + "@" + e.Worker
			if e.Spare {
				name += " spare"
			}
			out = append(out, name)
		}
	}
	return out
}

// What is ready here is an endpoint of a service that nobody answers, and a spare of one that
// its cluster gives endpoints.
func TestLocalCompletesRoutes(t *testing.T) {
	r, shown := &router{}, map[wire.InstanceID]wire.InstanceStatus{}
	l := NewLocal(r, "edge", "w1",
		func(id wire.InstanceID) (wire.InstanceStatus, bool) { s, ok := shown[id]; return s, ok })
	rt := wire.Route{App: "shop", Service: "web", Ports: []api.Port{{Name: "http"}}}
	o := engineapi.EngineOrders{Orders: []wire.Order{enginetest.Order(0, 1, 100)}, Routes: []wire.Route{rt}}
	if routes := l.Set(&o); len(routes[0].Endpoints) != 0 || len(r.endpoints()) != 0 {
		t.Errorf("nothing is ready, and requests go to %v", r.endpoints())
	}
	shown["shop.web.0"] = wire.InstanceStatus{Phase: wire.PhaseRunning, Ready: true, Incarnation: 1}
	if routes, changed := l.Follow(&o); !changed || len(routes[0].Endpoints) != 1 ||
		!slices.Equal(r.endpoints(), []string{"shop.web.0@w1"}) {
		t.Errorf("ready: %t, %v", changed, r.endpoints())
	}
	times := r.times
	if _, changed := l.Follow(&o); changed || r.times != times {
		t.Error("the same again is a change")
	}
	if len(o.Routes[0].Endpoints) != 0 {
		t.Error("the orders were changed")
	}
	o.Routes[0].Endpoints = []wire.Endpoint{{Instance: "shop.web.1", Cluster: "edge", Worker: "w2"}}
	if routes := l.Set(&o); len(routes[0].Endpoints) != 1 ||
		!slices.Equal(r.endpoints(), []string{"shop.web.1@w2", "shop.web.0@w1 spare"}) {
		t.Errorf("with an endpoint of the cluster: %v", r.endpoints())
	}
}
