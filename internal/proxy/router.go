package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/proxy/certs"
	"github.com/verge-edge/verge/internal/proxy/data"
	"github.com/verge-edge/verge/internal/proxy/entries"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/fastpath"
	"github.com/verge-edge/verge/internal/proxy/forward"
	"github.com/verge-edge/verge/internal/proxy/gateway"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/proxy/sockets"
	"github.com/verge-edge/verge/internal/wire"
)

const defaultMaxConns = 10_000

// Router connects clients on this worker with instances anywhere. Its methods
// may be called from any goroutine.
type Router struct {
	opts     Options
	log      *slog.Logger
	opener   sockets.Opener
	paths    data.Paths
	streams  *data.Dialer
	services *router.Services
	entries  *entries.Entries
	data     *data.Port
	front    *forward.Front
	gateway  *gateway.Gateway
	reports  httpmsg.LoadReports
	flooded  atomic.Uint64 // connections of HTTP/2 that were cut for it
	draining atomic.Bool   // see Drain

	setting sync.Mutex // serialises SetRoutes
	opening sync.Mutex // serialises Open; taken before mu

	mu      sync.Mutex // guards below
	state   runState
	spawned func(func(context.Context)) // set by Start
	cancel  context.CancelFunc          // set by Start
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
		opts.HeaderTimeout = forward.HeaderTimeout
	}
	if opts.MaxConns == 0 {
		opts.MaxConns = defaultMaxConns
	}
	book, err := entries.LoadPorts(opts.StateFile)
	if newer := (*statefile.NewerError)(nil); errors.As(err, &newer) {
		return nil, err // what runs has these addresses, and they would be given again
	}
	if err != nil {
		opts.Log.Error("loopback addresses may change", "why", err)
	}
	r := &Router{opts: opts, log: opts.Log,
		opener: sockets.Opener{Sockets: opts.Sockets, Listeners: opts.Listeners, Public: opts.Public}}
	r.compose(book)
	return r, nil
}

// compose makes the parts of the router and connects them, those first that others use.
func (r *Router) compose(book *entries.Ports) {
	opts, draining := &r.opts, r.draining.Load
	var local, remote sockets.Dialer = &net.Dialer{KeepAlive: -1}, &net.Dialer{Timeout: data.DialTimeout}
	if opts.Sockets != nil {
		local, remote = opts.Sockets, sockets.DialWithin(opts.Sockets, data.DialTimeout)
	}
	id := data.NewIdentity(opts.TLS, opts.Away, opts.PeerAllowed)
	r.streams = data.NewDialer(opts.Cluster, id, remote, opts.PeerName, &r.paths)
	r.services = router.New(router.Options{
		Worker: opts.Worker, Cluster: opts.Cluster, Log: r.log, Distances: opts.Distances, Ask: opts.Ask,
		Spawn: r.spawn,
		Local: opts.Local, LocalDialer: local, HeaderTimeout: opts.HeaderTimeout, Dialer: r.streams,
	})
	r.front = forward.New(forward.Options{
		Services: r.services, Log: r.log, Reports: &r.reports, HeaderTimeout: opts.HeaderTimeout, Draining: draining,
	})
	fastPath := &fastpath.Driver{
		Services: r.services, Front: r.front, Log: r.log, Reports: &r.reports, Flooded: &r.flooded,
		Spawn: r.spawn, Draining: draining, HeaderTimeout: opts.HeaderTimeout,
	}
	r.entries = entries.New(entries.Options{
		Host: opts.EntryHost, Listen: r.opener.Listener, Log: r.log, Spawn: r.spawn,
		Requests: fastPath.ServeRequests, Connection: r.services.ServeEntry, MaxConns: opts.MaxConns, Book: book,
	})
	r.data = data.New(data.Options{
		Identity: id, Paths: &r.paths, Local: r.services.Local, Log: r.log, Protocols: opts.Protocols,
		Requests: fastPath.ServeStream, Echo: opts.Echo, Draining: draining, MaxConns: opts.MaxConns,
	})
	r.gateway = gateway.New(gateway.Options{
		Services: r.services, Front: r.front, Fast: fastPath, Opener: &r.opener, Log: r.log, Spawn: r.spawn,
		Draining: draining,
		Flooded:  &r.flooded, Addr: opts.GatewayAddr, TLSAddr: opts.GatewayTLSAddr,
		Listens: func() (plain, secure string) { return r.GatewayAddr(), r.GatewayTLSAddr() },
		Ports:   opts.GatewayPorts, ProxyFrom: opts.GatewayProxyFrom, SelfSigned: opts.SelfSigned,
		Changed: opts.GatewayChanged,
		Certs: certs.Options{
			Dir: opts.CertDir, Secrets: opts.Secrets, ACME: opts.ACME, Above: opts.CertsAbove, Log: r.log,
			Changed: opts.GatewayChanged,
		},
		HeaderTimeout: opts.HeaderTimeout, MaxConns: opts.MaxConns,
	})
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

	r.spawn(r.services.RunProber)
	r.spawn(r.front.Serve)
	r.entries.Start()
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
	open(DataPort, r.opts.DataAddr, &r.dataLn, r.data.Serve)
	open(GatewayPort, r.opts.GatewayAddr, &r.gateLn, r.gateway.Serve)
	open(GatewayTLSPort, r.opts.GatewayTLSAddr, &r.tlsLn, r.gateway.ServeTLS)
	r.gateway.Opened()
	return failed
}

// listen opens one port into ln, unless it is open, and serves it.
func (r *Router) listen(ctx context.Context, name, addr string, ln *net.Listener,
	serve func(context.Context, net.Listener)) error {
	if addr == "" || r.listenAddr(ln) != "" {
		return nil
	}
	// Without r.mu: a name as host may take long to look up.
	var opened net.Listener
	open := func() (err error) {
		opened, err = r.opener.Listener(net.ListenConfig{}, name).Listen(ctx, "tcp", addr)
		return err
	}
	where := r.opener.InPublic
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
	r.entries.Close()
	r.front.End()
	r.gateway.Ports.Close()
	r.streams.Close()
	r.wg.Wait()
	r.services.Close()
	r.gateway.Close()
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
func (r *Router) Entries() []entries.Entry { return r.entries.List() }

// Reserve returns the loopback address (host:port) of each port of a service by
// port name, and listens there, whether or not there is a route for it yet:
// without one a connection is refused at once. The addresses are durable when it
// returns and stay the same for as long as StateFile lives. It works before
// Start; connections are served from then on.
func (r *Router) Reserve(app, service string, ports []api.Port) (map[string]string, error) {
	var names []string
	for _, p := range ports {
		if p.Protocol != api.UDP { // entries carry connections alone
			names = append(names, router.PortName(p))
		}
	}
	return r.entries.Reserve(app, service, names)
}

// SetRoutes replaces all routes, which must not change afterwards. Entries of new services are
// opened, entries of removed ones closed; established connections continue. Health and rotation
// of the others are kept.
func (r *Router) SetRoutes(routes []wire.Route) {
	r.setting.Lock()
	defer r.setting.Unlock()
	keys := r.services.Set(routes, r.gateway.Publish)
	r.entries.Set(keys)
	r.gateway.Open()
	r.LocalChanged()
}

// Serve takes connections that ln accepts as connections to a port of a service, as
// those to its loopback entry are, until ln is closed or the Router is. It returns
// at once.
func (r *Router) Serve(ln net.Listener, app, service, port string) {
	r.entries.ServeListener(ln, entries.Key{App: app, Service: service, Port: port})
}
