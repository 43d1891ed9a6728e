package engine

import (
	"context"
	"slices"

	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/wire"
)

// withOwn are the routes of orders, in which services that nobody answers have what is
// ready on this worker, and those endpoints. A cluster names an instance when it has
// heard that it is ready. Where the last that it said before it went away was that none
// is, nobody else would lead requests to one that was started again here since.
func withOwn(o *wire.EngineOrders, self wire.Endpoint, status func(wire.InstanceID) (wire.InstanceStatus, bool)) (routes []wire.Route, own []wire.Endpoint) {
	ready := map[string][]wire.Endpoint{}
	for i := range o.Orders {
		order := &o.Orders[i]
		s, ok := status(order.ID)
		if order.Stop || !ok || s.Phase != wire.PhaseRunning || !s.Ready || s.Draining || s.Incarnation != order.Incarnation {
			continue
		}
		e := self
		e.Instance, e.Addrs = order.ID, s.Addrs
		key := order.App + "." + order.Service
		ready[key] = append(ready[key], e)
	}
	routes = o.Routes
	if len(ready) == 0 {
		return routes, nil
	}
	for i := range routes {
		r := &routes[i]
		here := ready[r.Key()]
		if len(here) == 0 || len(r.Endpoints) > 0 || r.Unasked || len(r.Ports) == 0 {
			continue
		}
		if own == nil {
			routes = slices.Clone(routes) // the orders stay as they came
		}
		routes[i].Endpoints, routes[i].Lacks = here, ""
		own = append(own, here...)
	}
	return routes, own
}

// route gives the router the routes of the orders, and what is added to them here, and
// returns them. The caller has applying.
func (e *Engine) route() []wire.Route {
	routes, own := withOwn(&e.told, e.self(), e.board.get)
	e.own = own
	e.kit.router.SetRoutes(routes)
	return routes
}

// self is an endpoint on this worker, without an instance.
func (e *Engine) self() wire.Endpoint {
	return wire.Endpoint{Cluster: e.kit.config.Cluster, Worker: e.kit.config.Worker}
}

// followOwn adds what becomes ready here to services that nobody answers, and takes it
// away, until ctx is done.
func (e *Engine) followOwn(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.kit.local:
		}
		if !e.applying.lockUntil(ctx) {
			return
		}
		_, own := withOwn(&e.told, e.self(), e.board.get)
		if !slices.EqualFunc(own, e.own, func(a, b wire.Endpoint) bool { return a.Instance == b.Instance && slices.Equal(a.Addrs, b.Addrs) }) {
			o := e.told
			o.Routes = e.route()
			e.setNetwork(&o)
		}
		e.applying.Unlock()
	}
}

// localChanged tells followOwn that readiness of instances may be another.
func (k *kit) localChanged() { loop.Poke(k.local) }
