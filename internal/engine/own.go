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
	routes = o.Routes
	var lack map[string]int // by key, mostly none
	for i := range routes {
		if r := &routes[i]; len(r.Endpoints) == 0 && !r.Unasked && len(r.Ports) > 0 {
			if lack == nil {
				lack = map[string]int{}
			}
			lack[r.Key()] = i
		}
	}
	if lack == nil {
		return routes, nil
	}
	for i := range o.Orders {
		order := &o.Orders[i]
		at, ok := lack[order.App+"."+order.Service]
		if !ok || order.Stop {
			continue
		}
		s, ok := status(order.ID)
		if !ok || s.Phase != wire.PhaseRunning || !s.Ready || s.Draining || s.Incarnation != order.Incarnation {
			continue
		}
		if own == nil {
			routes = slices.Clone(routes) // the orders stay as they came
		}
		e := self
		e.Instance, e.Addrs = order.ID, s.Addrs
		r := &routes[at]
		r.Endpoints, r.Lacks = append(slices.Clip(r.Endpoints), e), ""
		own = append(own, e)
	}
	return routes, own
}

// route gives the router the routes of the orders, and what is added to them here, and
// returns them. The caller has applying.
func (e *Engine) route() []wire.Route {
	routes, own := withOwn(&e.told, e.self(), e.board.get)
	e.lead(routes, own)
	return routes
}

func (e *Engine) lead(routes []wire.Route, own []wire.Endpoint) {
	e.own = own
	e.kit.router.SetRoutes(routes)
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
		routes, own := withOwn(&e.told, e.self(), e.board.get)
		if !slices.EqualFunc(own, e.own, func(a, b wire.Endpoint) bool { return a.Instance == b.Instance && slices.Equal(a.Addrs, b.Addrs) }) {
			o := e.told
			o.Routes = routes
			e.lead(routes, own)
			if e.setNetwork(&o) {
				e.wakeAll() // what kept it from its place before is gone
			}
		}
		e.applying.Unlock()
	}
}

// localChanged tells followOwn that readiness of instances may be another.
func (k *kit) localChanged() { loop.Poke(k.local) }
