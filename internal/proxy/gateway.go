package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Limits of the gateway.
const (
	gatewayHeaderTimeout = 10 * time.Second
	gatewayIdleTimeout   = 120 * time.Second
	gatewayMaxHeader     = 64 << 10
)

// gateway serves published hosts over HTTP/1.1.
type gateway struct {
	r     *Router
	proxy *httputil.ReverseProxy
	conns limiter
	// busy counts requests, under the name "".
	busy inflight

	requests   atomic.Uint64
	unknown    atomic.Uint64 // no such host
	noEndpoint atomic.Uint64 // 503
	failed     atomic.Uint64 // 502
	rejected   atomic.Uint64 // connections over the limit
	traffic    traffic
}

// exchange is what the steps of one request share; it travels in the context.
type exchange struct {
	hostTarget
	endpoint *endpoint // that answers; nil before
	status   int       // of the answer; 0 before
}

type exchangeKey struct{}

func newGateway(r *Router, maxConns int64) *gateway {
	g := &gateway{r: r, busy: inflight{by: map[wire.InstanceID]*load{}, last: map[wire.InstanceID]time.Time{}}}
	g.conns.max = maxConns
	g.proxy = &httputil.ReverseProxy{
		Rewrite:       rewrite,
		Transport:     g,
		FlushInterval: -1, // streams and events pass at once
		BufferPool:    bufferPool{},
		ErrorHandler:  g.fail,
		ErrorLog:      slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
	return g
}

// serve serves until ctx ends and waits for the requests that it cut off then.
func (g *gateway) serve(ctx context.Context, ln net.Listener) {
	srv := &http.Server{
		Handler:           g,
		ReadHeaderTimeout: gatewayHeaderTimeout,
		IdleTimeout:       gatewayIdleTimeout,
		MaxHeaderBytes:    gatewayMaxHeader,
		ErrorLog:          slog.NewLogLogger(g.r.log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.Serve(&boundedListener{Listener: ln, g: g}); err != nil && ctx.Err() == nil {
		g.r.log.Error("gateway ended", "why", err)
	}
	_ = ln.Close() // closed already, unless Serve ended by itself
	<-g.busy.drained("")
}

// ServeHTTP finds the service of a host.
func (g *gateway) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	defer g.busy.add("")()
	g.requests.Add(1)
	if req.Method == http.MethodConnect {
		problem(w, wire.Problemf(http.StatusMethodNotAllowed, "no-tunnel", "send the request itself",
			"no tunnels here", "CONNECT is not offered by this gateway"))
		return
	}
	host := canonicalHost(req.Host)
	t, ok := g.r.table.Load().hosts[host]
	if !ok {
		g.unknown.Add(1)
		problem(w, wire.Problemf(http.StatusNotFound, "unknown-host",
			"give a port of a service \"ingress: {host: NAME}\" and apply it; or send the host name of one that has it",
			"no service for this host", "nothing publishes the host %.255q at this gateway", host))
		return
	}
	t.service.requests.Add(1)
	x := &exchange{hostTarget: t}
	begin := time.Now()
	defer func() {
		if x.status != http.StatusSwitchingProtocols { // that is a connection from there on
			t.service.answers.observe(req.Method, cmp.Or(x.status, statusClosed), time.Since(begin))
		}
		if x.endpoint != nil {
			x.endpoint.active.Add(-1)
			x.endpoint.settle()
		}
	}()
	if err := g.r.arrive(req.Context(), t.service, begin); err != nil {
		t.service.failures.Add(1)
		g.noEndpoint.Add(1)
		x.status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
		problem(w, wire.Problemf(x.status, "not-told", "try again in a moment; \"verge get clusters\" says whether it answers",
			"its instances are not known here now", "service %s: %v", t.service.key, err))
		return
	}
	g.proxy.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), exchangeKey{}, x)))
}

// rewrite makes the request to the endpoint: as it came, but for what only a
// proxy may say about its client.
func rewrite(p *httputil.ProxyRequest) {
	for name := range p.Out.Header {
		if strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" {
			p.Out.Header.Del(name)
		}
	}
	p.SetXForwarded()
	// ReverseProxy drops what its own parser does not understand from the query;
	// nothing here reads it, so it is the application's matter.
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	p.Out.URL.Scheme = "http"
	if x, ok := p.In.Context().Value(exchangeKey{}).(*exchange); ok {
		p.Out.URL.Host = x.service.key // of no meaning: transports are per endpoint
	}
}

// fail answers where no endpoint did.
func (g *gateway) fail(w http.ResponseWriter, req *http.Request, err error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok || req.Context().Err() != nil {
		w.WriteHeader(http.StatusBadGateway) // the client is gone: nobody reads it
		return
	}
	x.service.failures.Add(1)
	x.status = http.StatusBadGateway
	g.r.log.Debug("request failed", "service", x.service.key, "port", x.port, "why", err)
	if errors.Is(err, errNoEndpoint) {
		g.noEndpoint.Add(1)
		x.status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "1")
		problem(w, wire.Problemf(http.StatusServiceUnavailable, "no-endpoint",
			"try again in a moment; \"verge describe application/"+x.service.app+"\" says what is missing",
			"no instance is ready", "service %s has no instance that this gateway could ask", x.service.key))
		return
	}
	g.failed.Add(1)
	problem(w, wire.Problemf(http.StatusBadGateway, "upstream-failed",
		"try again; \"verge logs\" of the instances says more",
		"no instance answered", "service %s: its instances refused or broke the connection", x.service.key))
}

// problem writes an RFC 9457 document.
func problem(w http.ResponseWriter, p *wire.Problem) {
	body, err := json.Marshal(p)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}

// canonicalHost is the host of a Host header: lower case, without port, brackets
// and final dot.
func canonicalHost(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// boundedListener closes connections beyond the limit at once.
type boundedListener struct {
	net.Listener
	g *gateway
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.g.conns.take() {
			return &heldConn{Conn: &countedConn{Conn: c, traffic: &l.g.traffic}, release: l.g.conns.give}, nil
		}
		l.g.rejected.Add(1)
		cut(c)
	}
}

// heldConn gives something back when it is closed.
type heldConn struct {
	net.Conn
	once    sync.Once
	release func()
}

// Close implements net.Conn.
func (c *heldConn) Close() error {
	defer c.once.Do(c.release)
	return c.Conn.Close()
}

// CloseWrite passes a half-close on, which upgraded connections use.
func (c *heldConn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}

// bufferPool lends copy buffers to ReverseProxy.
type bufferPool struct{}

// Get implements httputil.BufferPool.
func (bufferPool) Get() []byte { return largeBuffers.Get().(*[largeBuffer]byte)[:] }

// Put implements httputil.BufferPool.
func (bufferPool) Put(b []byte) { largeBuffers.Put((*[largeBuffer]byte)(b)) }
