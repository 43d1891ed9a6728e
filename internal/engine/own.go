package engine

import (
	"context"
	"net/netip"
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
		if !ok {
			continue
		}
		addrs, ok := readyHere(order, status)
		if !ok {
			continue
		}
		if own == nil {
			routes = slices.Clone(routes) // the orders stay as they came
		}
		e := self
		e.Instance, e.Addrs = order.ID, addrs
		r := &routes[at]
		r.Endpoints, r.Lacks = append(slices.Clip(r.Endpoints), e), ""
		own = append(own, e)
	}
	return routes, own
}

// withSpares are these routes, in which services that have endpoints have what else is ready
// on this worker as spares, and those. A cluster that went away may have named only
// instances that are gone since, while one was started again here: it is asked before
// nobody is. As long as one that the cluster names is in rotation a spare gets nothing, so
// that the share of a trial, and what an update keeps back, stay the cluster's to decide.
func withSpares(routes []wire.Route, orders []wire.Order, self wire.Endpoint, status func(wire.InstanceID) (wire.InstanceStatus, bool)) (_ []wire.Route, spares []wire.Endpoint) {
	type key struct{ app, service string }
	var ready map[key][]wire.Endpoint
	for i := range orders {
		o := &orders[i]
		addrs, ok := readyHere(o, status)
		if !ok {
			continue
		}
		if ready == nil {
			ready = map[key][]wire.Endpoint{}
		}
		e := self
		e.Instance, e.Addrs, e.Spare = o.ID, addrs, true
		k := key{o.App, o.Service}
		ready[k] = append(ready[k], e)
	}
	if ready == nil {
		return routes, nil
	}
	out := routes
	for i := range routes {
		r := &routes[i]
		if len(r.Endpoints) == 0 || r.Unasked || len(r.Ports) == 0 {
			continue
		}
		for _, e := range ready[key{r.App, r.Service}] {
			// One that is named at another worker has been moved there.
			if slices.ContainsFunc(r.Endpoints, func(n wire.Endpoint) bool { return n.Instance == e.Instance }) {
				continue
			}
			if spares == nil {
				out = slices.Clone(routes)
			}
			out[i].Endpoints = append(slices.Clip(out[i].Endpoints), e)
			spares = append(spares, e)
		}
	}
	return out, spares
}

// readyHere says whether an instance of this worker answers, and where.
func readyHere(o *wire.Order, status func(wire.InstanceID) (wire.InstanceStatus, bool)) ([]netip.Addr, bool) {
	if o.Stop {
		return nil, false
	}
	s, ok := status(o.ID)
	return s.Addrs, ok && s.Phase == wire.PhaseRunning && s.Ready && !s.Draining && s.Incarnation == o.Incarnation
}

// route gives the router the routes of the orders, and what is added to them here, and
// returns them. The caller has applying.
func (e *Engine) route() []wire.Route {
	routes, own := withOwn(&e.told, e.self(), e.board.Get)
	e.lead(routes, own)
	return routes
}

func (e *Engine) lead(routes []wire.Route, own []wire.Endpoint) {
	e.own = own
	routes, e.spares = withSpares(routes, e.told.Orders, e.self(), e.board.Get)
	e.kit.router.SetRoutes(routes)
}

// self is an endpoint on this worker, without an instance.
func (e *Engine) self() wire.Endpoint {
	return wire.Endpoint{Cluster: e.kit.config.Cluster, Worker: e.kit.config.Worker}
}

// followOwn adds what becomes ready here to services that nobody answers, and as spares to
// others, and takes it away, until ctx is done.
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
		routes, own := withOwn(&e.told, e.self(), e.board.Get)
		_, spares := withSpares(routes, e.told.Orders, e.self(), e.board.Get)
		switch same := func(a, b wire.Endpoint) bool { return a.Instance == b.Instance && slices.Equal(a.Addrs, b.Addrs) }; {
		case !slices.EqualFunc(own, e.own, same):
			o := e.told
			o.Routes = routes
			e.lead(routes, own)
			if e.setNetwork(&o) {
				e.wakeAll() // what kept it from its place before is gone
			}
		case !slices.EqualFunc(spares, e.spares, same):
			e.lead(routes, own)
		}
		e.applying.Unlock()
	}
}

// localChanged tells followOwn that readiness of instances may be another.
func (k *kit) localChanged() { loop.Poke(k.local) }
