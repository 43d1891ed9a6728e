package proxy

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/wire"
)

// services are the routed services of a worker and their endpoints. Lock order: setting,
// service.mu, endpoint.mu.
type services struct {
	opts    servicesOptions
	locals  *spots
	dialer  *streamDialer
	asked   chan struct{} // see Asked
	noRoute atomic.Uint64 // connections to entries without a route

	// table is what connections and requests look at; replaced as a whole.
	table   atomic.Pointer[table]
	setting sync.Mutex // serialises set
	lines   lines
	// probe tells the prober that there is something new; localChanged that
	// local instances are to be asked again.
	probe        chan struct{}
	localChanged chan struct{}
}

// servicesOptions are what services are routed by.
type servicesOptions struct {
	// Worker is the own name, Cluster the one of the own cluster; "" compares the worker alone.
	Worker, Cluster string
	Log             *slog.Logger
	// Distances to other workers; nil where nothing is known of them.
	Distances Distances
	// Ask is called before the first use of a service whose endpoints are not here, and
	// returns when they have been set; nil: there are none then.
	Ask func(ctx context.Context, service string) error
	// Spawn runs a goroutine; false before the router starts and after it is closed.
	Spawn func(func(context.Context)) bool
	// Local, LocalDialer and HeaderTimeout are for the instances of this worker, see package local.
	Local         Local
	LocalDialer   netconn.Dialer
	HeaderTimeout time.Duration
	// Dialer opens streams to other workers.
	Dialer *streamDialer
}

func newServices(opts servicesOptions) *services {
	r := &services{
		opts: opts, dialer: opts.Dialer, asked: make(chan struct{}, 1),
		probe: make(chan struct{}, 1), localChanged: make(chan struct{}, 1),
	}
	r.locals = newSpots(localOptions{
		Local: opts.Local, Dialer: opts.LocalDialer, Log: opts.Log, Limits: r.limits, Asked: r.asked, HeaderTimeout: opts.HeaderTimeout,
	})
	r.table.Store(newTable(0))
	return r
}

// table is the routes as the data path needs them.
type table struct {
	services  map[string]*service // by key
	byAddress map[string][]*endpoint
}

func newTable(size int) *table {
	return &table{services: make(map[string]*service, size), byAddress: map[string][]*endpoint{}}
}

// find returns a service by its key, nil where it has no route.
func (r *services) find(key string) *service { return r.table.Load().services[key] }

// publishedPort is a port of a service that gateways publish.
type publishedPort struct {
	Target    target
	Namespace string
	Ingress   *api.Ingress
	UDP       bool
}

// target is the port of a service that clients are led to.
type target struct {
	Service *service
	Port    string
}

// set replaces all routes, of which nobody changes anything any more. Health and rotation
// of what stays are kept, established connections go on. publish is called with what
// gateways publish. It returns the ports that have entries.
func (r *services) set(routes []wire.Route, publish func([]publishedPort)) (keys []entryKey) {
	r.setting.Lock()
	defer r.setting.Unlock()
	old := r.table.Load()
	next := newTable(len(routes))
	var gate []publishedPort
	var gone []*endpoint
	for _, k := range byKey(routes) {
		rt, key := k.route, k.key
		if next.services[key] != nil {
			r.opts.Log.Warn("a second route for a service is ignored", "service", key)
			continue
		}
		s := old.services[key]
		if s == nil {
			s = &service{app: rt.App, name: rt.Service, key: key, seed: seedOf(r.opts.Cluster, r.opts.Worker, key)}
		}
		next.services[key] = s
		gone = append(gone, s.update(rt, r.isLocal, func(err error) {
			r.opts.Log.Warn("service is routed by round robin instead", "service", key, "why", err)
		})...)
		for _, e := range s.all() {
			if !e.local && e.Address != "" {
				next.byAddress[e.Address] = append(next.byAddress[e.Address], e)
			}
		}
		for _, p := range rt.Ports {
			if p.Ingress != nil {
				gate = append(gate, publishedPort{
					Target: target{Service: s, Port: portName(p)}, Namespace: cmp.Or(rt.Namespace, api.DefaultNamespace),
					Ingress: p.Ingress, UDP: p.Protocol == api.UDP,
				})
			}
			if p.Protocol == api.UDP {
				continue // entries carry connections alone
			}
			keys = append(keys, entryKey{app: rt.App, service: rt.Service, port: portName(p)})
		}
	}
	r.table.Store(next)
	publish(gate)
	r.relined()
	for key, s := range old.services {
		if next.services[key] == nil {
			gone = append(gone, s.all()...)
		}
	}
	// What is in flight to them ends by itself; the connections are then closed
	// instead of kept.
	for _, e := range gone {
		e.retire()
		r.doubt(e, true)
	}
	for _, s := range next.services {
		for _, e := range s.all() {
			if s.isSuspect(e) {
				r.doubt(e, false)
			}
		}
	}
	return keys
}

// close closes the connections that are kept to endpoints.
func (r *services) close() {
	for _, x := range r.locals.all() {
		x.closeIdle()
	}
	for _, s := range r.table.Load().services {
		for _, e := range s.all() {
			e.retire()
		}
	}
}

type keyed struct {
	key   string
	route *wire.Route
}

// byKey are routes in order: of two with the same host the first wins, on every worker.
func byKey(routes []wire.Route) []keyed {
	out := make([]keyed, len(routes))
	for i := range routes {
		out[i] = keyed{routes[i].Key(), &routes[i]}
	}
	slices.SortStableFunc(out, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
	return out
}

func (r *services) isLocal(e wire.Endpoint) bool {
	return e.Worker == r.opts.Worker && (r.opts.Cluster == "" || e.Cluster == r.opts.Cluster)
}

// LocalChanged tells the Router that readiness or ports of instances of this
// worker may have changed. It asks Local about them soon, from a goroutine of
// its own.
func (r *services) LocalChanged() { netconn.Wake(r.localChanged) }

func (r *services) wakeProber() { netconn.Wake(r.probe) }

// serveEntry connects one client of an entry with an endpoint.
func (r *services) serveEntry(ctx context.Context, k entryKey, client *net.TCPConn) {
	s := r.table.Load().services[k.app+"."+k.service]
	if s == nil {
		r.noRoute.Add(1)
		netconn.Cut(client)
		return
	}
	r.serveClient(ctx, s, k.port, client, nil)
}

// serveClient connects a client with an endpoint, which is sent head first.
func (r *services) serveClient(ctx context.Context, s *service, port string, client *net.TCPConn, head []byte) {
	s.connections.Add(1)
	begin := time.Now()
	if err := r.arrive(ctx, s, begin); err != nil {
		s.failures.Add(1)
		r.opts.Log.Debug("connection refused", "service", s.key, "port", port, "why", err)
		netconn.Cut(client)
		return
	}
	upstream, release, e, err := r.open(ctx, s, port)
	s.connects.Observe(time.Since(begin))
	if err != nil {
		s.failures.Add(1)
		r.opts.Log.Debug("connection refused", "service", s.key, "port", port, "why", err)
		netconn.Cut(client)
		return
	}
	defer release()
	e.active.Add(1)
	defer e.active.Add(-1)
	if len(head) > 0 {
		_, _ = upstream.Write(head) // one that is gone is found out by the relay
	}
	if netconn.RelayUntil(ctx, client, upstream, &s.traffic) {
		e.failures.Add(1)
		r.eject(e, "connection was reset before an answer")
	}
}
