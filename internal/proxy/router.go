package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/proxy/ingress"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/wire"
)

const defaultMaxConns = 10_000

// Router connects clients on this worker with instances anywhere. Its methods
// may be called from any goroutine.
type Router struct {
	opts         Options
	log          *slog.Logger
	identity     *identity
	opens        netconn.Opener
	localDialer  netconn.Dialer
	remoteDialer netconn.Dialer
	asked        chan struct{} // see Asked
	draining     atomic.Bool   // see Drain
	inflight     inflight
	paths        paths
	echoConns    echoConns
	entries      *entries
	data         *dataPort
	gateway      *gateway
	front        *front
	spots        spots
	noRoute      atomic.Uint64 // connections to entries without a route
	flooded      atomic.Uint64 // connections of HTTP/2 that were cut for it
	reports      httpmsg.LoadReports

	// table is what connections and requests look at; replaced as a whole.
	table atomic.Pointer[table]
	// setting serialises SetRoutes. Lock order: setting, entries.mu, mu,
	// service.mu, endpoint.mu.
	setting sync.Mutex
	opening sync.Mutex // serialises Open; taken before mu
	// probe tells the prober that there is something new; localChanged that
	// local instances are to be asked again.
	probe        chan struct{}
	localChanged chan struct{}

	mu      sync.Mutex // guards below
	state   runState
	spawned func(func(context.Context)) // set by Start
	cancel  context.CancelFunc          // set by Start
	lines   lines
	dataLn  net.Listener
	gateLn  net.Listener
	tlsLn   net.Listener
	wg      sync.WaitGroup // grows only while state is running
}

type runState int

const (
	idle runState = iota
	running
	closed
)

// table is the routes as the data path needs them.
type table struct {
	services  map[string]*service // by key
	byAddress map[string][]*endpoint

	// What gateways publish: by host and path, of which ingress finds the index in
	// published, and by port.
	ingress   *ingress.Table
	published []published
	ports     map[gatePort]published
}

func newTable(size int) *table {
	t := &table{services: make(map[string]*service, size), byAddress: map[string][]*endpoint{}}
	t.ingress, _ = ingress.New(nil)
	return t
}

// New makes a Router and reads its StateFile; it opens nothing yet.
func New(opts Options) (*Router, error) {
	switch {
	case opts.Local == nil:
		return nil, errors.New("proxy: Options.Local is missing")
	case opts.Worker == "":
		return nil, errors.New("proxy: Options.Worker is missing")
	case opts.TLS != nil && opts.PeerName == nil:
		return nil, errors.New("proxy: Options.PeerName is missing, which Options.TLS needs")
	case opts.DataAddr != "" && opts.TLS == nil:
		return nil, errors.New("proxy: Options.DataAddr needs Options.TLS")
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.EntryHost == "" {
		opts.EntryHost = "127.0.0.1"
	}
	if opts.HeaderTimeout == 0 {
		opts.HeaderTimeout = headerTimeout
	}
	if opts.MaxConns == 0 {
		opts.MaxConns = defaultMaxConns
	}
	book, err := loadPorts(opts.StateFile)
	if newer := (*statefile.NewerError)(nil); errors.As(err, &newer) {
		return nil, err // what runs has these addresses, and they would be given again
	}
	if err != nil {
		opts.Log.Error("loopback addresses may change", "why", err)
	}
	r := &Router{
		opts:         opts,
		log:          opts.Log,
		identity:     &identity{source: opts.TLS, away: opts.Away, allowed: opts.PeerAllowed, cache: tls.NewLRUClientSessionCache(sessions)},
		localDialer:  &net.Dialer{KeepAlive: -1},
		remoteDialer: &net.Dialer{Timeout: dialTimeout},
		opens:        netconn.Opener{Sockets: opts.Sockets, Listeners: opts.Listeners, Public: opts.Public},
		asked:        make(chan struct{}, 1),
		inflight:     newInflight(),
		probe:        make(chan struct{}, 1),
		localChanged: make(chan struct{}, 1),
	}
	if opts.Sockets != nil {
		r.localDialer, r.remoteDialer = opts.Sockets, netconn.DialWithin(opts.Sockets, dialTimeout)
	}
	r.entries = &entries{
		host: opts.EntryHost, listen: r.opens.Listener, log: r.log, spawn: r.spawn, handle: r.serveEntry, takes: r.takesRequests,
		book: book, open: map[entryKey]*entry{},
	}
	r.entries.conns.Max = int64(opts.MaxConns)
	r.data = &dataPort{r: r, handshakes: make(chan struct{}, maxHandshakes)}
	r.data.conns.Max = int64(opts.MaxConns)
	r.front = newFront(r)
	r.gateway = newGateway(r)
	r.table.Store(newTable(0))
	return r, nil
}

// Start serves the entries until ctx ends or Close is called (which is to be
// called in both cases): those that SetRoutes said are wanted, or, where it was
// not called before, those that StateFile knows. An entry whose address something
// else holds is no error: see Entry.Problem. An error means that Start was called
// twice or after Close. The data port and the gateway are opened by Open.
func (r *Router) Start(ctx context.Context) error {
	r.mu.Lock()
	if r.state != idle {
		r.mu.Unlock()
		return errors.New("proxy: Start called twice or after Close")
	}
	ctx, r.cancel = context.WithCancel(ctx)
	r.spawned = func(f func(context.Context)) { r.wg.Go(func() { f(ctx) }) }
	r.state = running
	r.mu.Unlock()

	r.spawn(r.runProber)
	r.spawn(r.front.serve)
	r.entries.start()
	return nil
}

// Names of the ports of a PortError.
const (
	DataPort       = "data port"
	GatewayPort    = "gateway"
	GatewayTLSPort = "gateway with TLS"
)

// PortError says why a port of a Router is not open.
type PortError struct {
	Port string // DataPort, GatewayPort or GatewayTLSPort
	Addr string // as in Options, host:port
	Err  error  // wraps syscall.EADDRINUSE where something else listens there
}

// Error implements error.
func (e *PortError) Error() string {
	return fmt.Sprintf("%s cannot listen on %s: %v", e.Port, e.Addr, e.Err)
}

// Unwrap returns the cause.
func (e *PortError) Unwrap() error { return e.Err }

// Open listens on the data port and at the gateway's addresses, as far as Options want them and
// they are not open yet, and returns what could not be opened: none of them keeps
// the other or the entries from working, and Open may be called again. It is
// called between Start and Close; at other times it opens nothing. ctx bounds the
// opening only.
func (r *Router) Open(ctx context.Context) []*PortError {
	r.opening.Lock()
	defer r.opening.Unlock()
	var failed []*PortError
	open := func(port, addr string, ln *net.Listener, serve func(context.Context, net.Listener)) {
		if err := r.listen(ctx, port, addr, ln, serve); err != nil {
			failed = append(failed, &PortError{Port: port, Addr: addr, Err: err})
		}
	}
	open(DataPort, r.opts.DataAddr, &r.dataLn, r.serveData)
	open(GatewayPort, r.opts.GatewayAddr, &r.gateLn, r.gateway.serve)
	open(GatewayTLSPort, r.opts.GatewayTLSAddr, &r.tlsLn, r.gateway.serveTLS)
	r.gateway.opened()
	return failed
}

// listen opens one port into ln, unless it is open, and serves it.
func (r *Router) listen(ctx context.Context, name, addr string, ln *net.Listener, serve func(context.Context, net.Listener)) error {
	if addr == "" || r.listenAddr(ln) != "" {
		return nil
	}
	// Without r.mu: a name as host may take long to look up.
	var opened net.Listener
	open := func() (err error) {
		opened, err = r.opens.Listener(net.ListenConfig{}, name).Listen(ctx, "tcp", addr)
		return err
	}
	where := r.opens.InPublic
	if name == DataPort {
		where = func(open func() error) error { return open() }
	}
	if err := where(open); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != running || r.draining.Load() {
		return errors.Join(failure.ErrClosed, opened.Close())
	}
	*ln = opened
	r.spawned(func(ctx context.Context) { serve(ctx, opened) })
	return nil
}

// Close stops all that the Router owns, cuts its connections and waits. It may
// be called more than once.
func (r *Router) Close() {
	r.mu.Lock()
	cancel := r.cancel
	r.state = closed
	r.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	r.entries.close()
	r.front.end()
	r.gateway.ports.close()
	r.echoConns.close()
	r.wg.Wait()
	for _, x := range r.spots.all() {
		x.closeIdle()
	}
	r.gateway.certs.Close()
	for _, s := range r.table.Load().services {
		for _, e := range s.all() {
			e.retire()
		}
	}
}

// spawn runs f in a goroutine that Close waits for; false unless the Router
// runs.
func (r *Router) spawn(f func(context.Context)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != running {
		return false
	}
	r.spawned(f)
	return true
}

// DataAddr is where the data port listens, with the actual port number; "" as
// long as it does not.
func (r *Router) DataAddr() string { return r.listenAddr(&r.dataLn) }

// GatewayAddr is where the gateway listens, with the actual port number; "" as
// long as it does not.
func (r *Router) GatewayAddr() string { return r.listenAddr(&r.gateLn) }

// GatewayTLSAddr is the same for HTTP with TLS.
func (r *Router) GatewayTLSAddr() string { return r.listenAddr(&r.tlsLn) }

// isGateway says whether users are to come here.
func (r *Router) isGateway() bool { return r.opts.GatewayAddr != "" || r.opts.GatewayTLSAddr != "" }

func (r *Router) listenAddr(ln *net.Listener) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if *ln == nil {
		return ""
	}
	return (*ln).Addr().String()
}

// Entries returns the loopback addresses, ordered by application, service and
// port.
func (r *Router) Entries() []Entry { return r.entries.list() }

// Reserve returns the loopback address (host:port) of each port of a service by
// port name, and listens there, whether or not there is a route for it yet:
// without one a connection is refused at once. The addresses are durable when it
// returns and stay the same for as long as StateFile lives. It works before
// Start; connections are served from then on.
func (r *Router) Reserve(app, service string, ports []api.Port) (map[string]string, error) {
	return r.entries.reserve(app, service, ports)
}

// SetRoutes replaces all routes, of which nobody changes anything any more. Entries of
// services that are new are opened, those of services that were routed and are no
// longer are closed; established connections go on. Health and rotation of what stays
// are kept.
func (r *Router) SetRoutes(routes []wire.Route) {
	r.setting.Lock()
	defer r.setting.Unlock()
	before := r.table.Load()
	next := newTable(len(routes))
	var keys []entryKey
	var gate []publishedPort
	var gone []*endpoint
	for _, k := range byKey(routes) {
		rt, key := k.route, k.key
		if next.services[key] != nil {
			r.log.Warn("a second route for a service is ignored", "service", key)
			continue
		}
		s := before.services[key]
		if s == nil {
			s = &service{app: rt.App, name: rt.Service, key: key, seed: seedOf(r.opts.Cluster, r.opts.Worker, key)}
		}
		next.services[key] = s
		gone = append(gone, s.update(rt, r.isLocal, func(err error) {
			r.log.Warn("service is routed by round robin instead", "service", key, "why", err)
		})...)
		for _, e := range s.all() {
			if !e.local && e.Address != "" {
				next.byAddress[e.Address] = append(next.byAddress[e.Address], e)
			}
		}
		for _, p := range rt.Ports {
			if p.Ingress != nil {
				to := published{hostTarget: hostTarget{s, portName(p)}, namespace: cmp.Or(rt.Namespace, api.DefaultNamespace), ingress: p.Ingress}
				gate = append(gate, publishedPort{to, p.Protocol == api.UDP})
			}
			if p.Protocol == api.UDP {
				continue // entries carry connections alone
			}
			keys = append(keys, entryKey{rt.App, rt.Service, portName(p)})
		}
	}
	r.gateway.publish(next, before, gate)
	r.table.Store(next)
	r.relined()
	for key, s := range before.services {
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
	r.entries.set(keys)
	if r.isGateway() {
		r.gateway.ports.set(next.ports)
	}
	r.LocalChanged()
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

func (r *Router) isLocal(e wire.Endpoint) bool {
	return e.Worker == r.opts.Worker && (r.opts.Cluster == "" || e.Cluster == r.opts.Cluster)
}

// LocalChanged tells the Router that readiness or ports of instances of this
// worker may have changed. It asks Local about them soon, from a goroutine of
// its own.
func (r *Router) LocalChanged() { netconn.Wake(r.localChanged) }

func (r *Router) wakeProber() { netconn.Wake(r.probe) }

// serveEntry connects one client of an entry with an endpoint.
func (r *Router) serveEntry(ctx context.Context, k entryKey, client *net.TCPConn) {
	s := r.table.Load().services[k.app+"."+k.service]
	if s == nil {
		r.noRoute.Add(1)
		netconn.Cut(client)
		return
	}
	r.serveClient(ctx, s, k.port, client, nil)
}

// serveClient connects a client with an endpoint, which is sent head first.
func (r *Router) serveClient(ctx context.Context, s *service, port string, client *net.TCPConn, head []byte) {
	s.connections.Add(1)
	begin := time.Now()
	if err := r.arrive(ctx, s, begin); err != nil {
		s.failures.Add(1)
		r.log.Debug("connection refused", "service", s.key, "port", port, "why", err)
		netconn.Cut(client)
		return
	}
	upstream, release, e, err := r.open(ctx, s, port)
	s.connects.Observe(time.Since(begin))
	if err != nil {
		s.failures.Add(1)
		r.log.Debug("connection refused", "service", s.key, "port", port, "why", err)
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

// serveData accepts streams from other workers.
func (r *Router) serveData(ctx context.Context, ln net.Listener) {
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	var conns sync.WaitGroup
	defer conns.Wait()
	wait := netconn.WaitOrDone(ctx)
	netconn.AcceptAll(ln, func(d time.Duration) bool { return !r.draining.Load() && wait(d) }, r.log, func(c *net.TCPConn) {
		conns.Go(func() {
			defer context.AfterFunc(ctx, func() { netconn.Cut(c) })()
			r.data.serve(ctx, c)
		})
	})
}
