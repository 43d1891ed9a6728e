package router

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
	"github.com/verge-edge/verge/internal/proxy/data"
	"github.com/verge-edge/verge/internal/proxy/entries"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/proxy/queue"
	"github.com/verge-edge/verge/internal/proxy/relay"
	"github.com/verge-edge/verge/internal/proxy/sockets"
	"github.com/verge-edge/verge/internal/wire"
)

// Services are the routed services of a worker and their endpoints. Lock order: setting,
// Service.mu, Endpoint.mu.
type Services struct {
	Opts       Options
	Local      *local.Endpoints
	dialer     *data.Dialer
	DemandNews chan struct{} // see Asked
	NoRoute    atomic.Uint64 // connections to entries without a route

	// table is what connections and requests look at; replaced as a whole.
	table   atomic.Pointer[table]
	setting sync.Mutex // serialises set
	Lines   lines
	// probe tells the prober that there is something new; localChanged that
	// local instances are to be asked again.
	probe        chan struct{}
	localChanged chan struct{}
}

// Options are what services are routed by.
type Options struct {
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
	Local         local.Local
	LocalDialer   sockets.Dialer
	HeaderTimeout time.Duration
	// Dialer opens streams to other workers.
	Dialer *data.Dialer
}

// New has no routes yet.
func New(opts Options) *Services {
	r := &Services{
		Opts: opts, dialer: opts.Dialer, DemandNews: make(chan struct{}, 1),
		probe: make(chan struct{}, 1), localChanged: make(chan struct{}, 1),
	}
	r.Local = local.New(local.Options{
		Local: opts.Local, Dialer: opts.LocalDialer, Log: opts.Log, Limits: r.limits, Asked: r.DemandNews, HeaderTimeout: opts.HeaderTimeout,
	})
	r.table.Store(newTable(0))
	return r
}

// table is the routes as the data path needs them.
type table struct {
	services  map[string]*Service // by key
	byAddress map[string][]*Endpoint
}

func newTable(size int) *table {
	return &table{services: make(map[string]*Service, size), byAddress: map[string][]*Endpoint{}}
}

// Find returns a service by its key, nil where it has no route.
func (r *Services) Find(key string) *Service { return r.table.Load().services[key] }

// PublishedPort is a port of a service that gateways publish.
type PublishedPort struct {
	Target    Target
	Namespace string
	Ingress   *api.Ingress
	UDP       bool
}

// Target is the port of a service that clients are led to.
type Target struct {
	Service *Service
	Port    string
}

// Set replaces all routes, of which nobody changes anything any more. Health and rotation
// of what stays are kept, established connections go on. publish is called with what
// gateways publish. It returns the ports that have entries.
func (r *Services) Set(routes []wire.Route, publish func([]PublishedPort)) (keys []entries.Key) {
	r.setting.Lock()
	defer r.setting.Unlock()
	old := r.table.Load()
	next := newTable(len(routes))
	var gate []PublishedPort
	var gone []*Endpoint
	for _, k := range byKey(routes) {
		rt, key := k.route, k.key
		if next.services[key] != nil {
			r.Opts.Log.Warn("a second route for a service is ignored", "service", key)
			continue
		}
		s := old.services[key]
		if s == nil {
			s = &Service{App: rt.App, name: rt.Service, Key: key, seed: seedOf(r.Opts.Cluster, r.Opts.Worker, key)}
		}
		next.services[key] = s
		gone = append(gone, s.update(rt, r.isLocal, func(err error) {
			r.Opts.Log.Warn("service is routed by round robin instead", "service", key, "why", err)
		})...)
		for _, e := range s.All() {
			if !e.Local && e.Address != "" {
				next.byAddress[e.Address] = append(next.byAddress[e.Address], e)
			}
		}
		for _, p := range rt.Ports {
			if p.Ingress != nil {
				gate = append(gate, PublishedPort{
					Target: Target{Service: s, Port: PortName(p)}, Namespace: cmp.Or(rt.Namespace, api.DefaultNamespace),
					Ingress: p.Ingress, UDP: p.Protocol == api.UDP,
				})
			}
			if p.Protocol == api.UDP {
				continue // entries carry connections alone
			}
			keys = append(keys, entries.Key{App: rt.App, Service: rt.Service, Port: PortName(p)})
		}
	}
	r.table.Store(next)
	publish(gate)
	r.relined()
	for key, s := range old.services {
		if next.services[key] == nil {
			gone = append(gone, s.All()...)
		}
	}
	// What is in flight to them ends by itself; the connections are then closed
	// instead of kept.
	for _, e := range gone {
		e.retire()
		r.doubt(e, true)
	}
	for _, s := range next.services {
		for _, e := range s.All() {
			if s.isSuspect(e) {
				r.doubt(e, false)
			}
		}
	}
	return keys
}

// Close closes the connections that are kept to endpoints.
func (r *Services) Close() {
	for _, x := range r.Local.All() {
		x.CloseIdle()
	}
	for _, s := range r.table.Load().services {
		for _, e := range s.All() {
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

func (r *Services) isLocal(e wire.Endpoint) bool {
	return e.Worker == r.Opts.Worker && (r.Opts.Cluster == "" || e.Cluster == r.Opts.Cluster)
}

// LocalChanged tells the Router that readiness or ports of instances of this
// worker may have changed. It asks Local about them soon, from a goroutine of
// its own.
func (r *Services) LocalChanged() { netconn.Wake(r.localChanged) }

func (r *Services) wakeProber() { netconn.Wake(r.probe) }

// ServeEntry connects one client of an entry with an endpoint.
func (r *Services) ServeEntry(ctx context.Context, k entries.Key, client *net.TCPConn) {
	s := r.table.Load().services[k.App+"."+k.Service]
	if s == nil {
		r.NoRoute.Add(1)
		netconn.Cut(client)
		return
	}
	r.ServeClient(ctx, s, k.Port, client, nil)
}

// ServeClient connects a client with an endpoint, which is sent head first.
func (r *Services) ServeClient(ctx context.Context, s *Service, port string, client *net.TCPConn, head []byte) {
	s.Connections.Add(1)
	begin := time.Now()
	if err := r.Arrive(ctx, s, begin); err != nil {
		s.Failures.Add(1)
		r.Opts.Log.Debug("connection refused", "service", s.Key, "port", port, "why", err)
		netconn.Cut(client)
		return
	}
	upstream, release, e, err := r.Open(ctx, s, port)
	s.Connects.Observe(time.Since(begin))
	if err != nil {
		s.Failures.Add(1)
		r.Opts.Log.Debug("connection refused", "service", s.Key, "port", port, "why", err)
		netconn.Cut(client)
		return
	}
	defer release()
	e.Active.Add(1)
	defer e.Active.Add(-1)
	if len(head) > 0 {
		_, _ = upstream.Write(head) // one that is gone is found out by the relay
	}
	if relay.Streams(ctx, client, upstream, &s.Traffic) {
		e.Failures.Add(1)
		r.Eject(e, "connection was reset before an answer")
	}
}

// limits of the queue of an instance of this worker. What is routed by connection has
// none: only a gateway asks it by request. counted: how it answers is to be counted.
func (r *Services) limits(id wire.InstanceID) (_ queue.Limits, counted bool) {
	key := id[:max(0, strings.LastIndexByte(id, '.'))]
	s := r.table.Load().services[key]
	if s == nil {
		return queue.Limits{}, false
	}
	if l := s.limits.Load(); l != nil {
		return *l, s.counted.Load()
	}
	return queue.Limits{}, s.counted.Load()
}

// limitsOf the queues in front of the instances of a service; nil: none.
func limitsOf(rt *wire.Route) *queue.Limits {
	for i := range rt.Ports {
		if rt.ByRequest(&rt.Ports[i]) {
			return &queue.Limits{Places: rt.Requests.Places(), Waiting: rt.Requests.MayWait()}
		}
	}
	return nil
}

// Places are how many requests an instance of a service may work on at a time; 0: any
// number, or the service is not routed by request.
func (r *Services) Places(id wire.InstanceID) int {
	limits, _ := r.limits(id)
	return limits.Places
}
