package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/verge-edge/verge/internal/wire"
)

// gateway serves published hosts over HTTP/1.1.
type gateway struct {
	r     *Router
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

func newGateway(r *Router, maxConns int64) *gateway {
	g := &gateway{r: r, busy: newInflight()}
	g.conns.max = maxConns
	return g
}

// serve serves until ctx ends and waits for the requests that it cut off then.
func (g *gateway) serve(ctx context.Context, ln net.Listener) {
	srv := httpServer(ctx, g.r.log, g)
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
		fail(w, req, http.StatusMethodNotAllowed, "no-tunnel", "send the request itself", "CONNECT is not offered here")
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
	switch status := g.r.forward(w, req, t, forwarding{strangers: true}); {
	case status == http.StatusServiceUnavailable:
		g.noEndpoint.Add(1)
	case status > http.StatusInternalServerError:
		g.failed.Add(1)
	}
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
