package routes

import (
	"net/netip"
	"slices"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// withOwn returns the routes of orders, with what is ready on this worker in routes without
// endpoints, and those endpoints. A cluster names an instance when it has heard that it is ready.
// If it went away while an instance was being started again, requests would reach none.
func withOwn(o *engineapi.EngineOrders, self wire.Endpoint,
	status func(wire.InstanceID) (wire.InstanceStatus, bool)) (routes []wire.Route, own []wire.Endpoint) {
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

// withSpares returns these routes, with what else is ready on this worker as spares in routes with
// endpoints, and those spares. A cluster that went away may name only instances that are gone. A
// spare gets nothing while one that the cluster names is in rotation, so that the cluster decides
// the share of a trial and what an update keeps back.
func withSpares(routes []wire.Route, orders []wire.Order, self wire.Endpoint,
	status func(wire.InstanceID) (wire.InstanceStatus, bool)) (_ []wire.Route, spares []wire.Endpoint) {
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

// Router takes routes.
type Router interface{ SetRoutes(routes []wire.Route) }

// Local completes the routes of orders with what is ready on this worker. One caller at a time.
type Local struct {
	router Router
	self   wire.Endpoint // on this worker, without an instance
	status func(wire.InstanceID) (wire.InstanceStatus, bool)
	// own are the endpoints that were added to routes without any, spares those that were
	// added for the router.
	own, spares []wire.Endpoint
}

// NewLocal gives routes to a router; status is what is shown of an instance.
func NewLocal(router Router, cluster, worker string,
	status func(wire.InstanceID) (wire.InstanceStatus, bool)) *Local {
	return &Local{router: router, self: wire.Endpoint{Cluster: cluster, Worker: worker}, status: status}
}

// Set gives the router the routes of orders, and what is added to them here, and returns
// them without the spares.
func (l *Local) Set(o *engineapi.EngineOrders) []wire.Route {
	routes, own := withOwn(o, l.self, l.status)
	l.lead(o, routes, own)
	return routes
}

func (l *Local) lead(o *engineapi.EngineOrders, routes []wire.Route, own []wire.Endpoint) {
	l.own = own
	routes, l.spares = withSpares(routes, o.Orders, l.self, l.status)
	l.router.SetRoutes(routes)
}

// Follow gives the router other routes where other instances are ready here than before. It
// returns them where they have other endpoints than spares; changed is false where not.
func (l *Local) Follow(o *engineapi.EngineOrders) (routes []wire.Route, changed bool) {
	routes, own := withOwn(o, l.self, l.status)
	_, spares := withSpares(routes, o.Orders, l.self, l.status)
	same := func(a, b wire.Endpoint) bool { return a.Instance == b.Instance && slices.Equal(a.Addrs, b.Addrs) }
	changed = !slices.EqualFunc(own, l.own, same)
	if changed || !slices.EqualFunc(spares, l.spares, same) {
		l.lead(o, routes, own)
	}
	return routes, changed
}
