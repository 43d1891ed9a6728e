package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/accept"
	"github.com/verge-edge/verge/internal/proxy/fastpath"
	"github.com/verge-edge/verge/internal/proxy/forward"
	"github.com/verge-edge/verge/internal/proxy/h2guard"
	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/proxy/http1/message"
	"github.com/verge-edge/verge/internal/proxy/ingress"
	"github.com/verge-edge/verge/internal/proxy/netconn"
)

// httpListener is one of the gateway's listeners for HTTP. Connections begin on the fast path;
// what is more than that goes to the server, by rest.
type httpListener struct {
	g    *Gateway
	tls  *tls.Config // nil where it is without
	rest *http1.Listener
}

// open serves a connection, if it is admitted. It returns at once: what a balancer says
// first is waited for beside the others.
func (d *httpListener) open(c net.Conn) {
	if !d.g.trusts(c.RemoteAddr()) {
		if who, release, ok := d.g.admit(context.Background(), c); ok { // nobody is waited for
			d.enter(c, who, release)
		}
		return
	}
	if !d.g.opts.Spawn(func(ctx context.Context) {
		if who, release, ok := d.g.admit(ctx, c); ok {
			d.enter(c, who, release)
		}
	}) {
		netconn.Cut(c) // the Router is closed
	}
}

// enter serves a connection that was admitted. It returns at once; release is called
// once when the connection has been closed.
func (d *httpListener) enter(c net.Conn, who origin, release func()) {
	g := d.g
	ok := g.opts.Spawn(func(ctx context.Context) {
		var conn *http1.Conn
		traffic := &g.traffic
		if d.tls == nil {
			conn = http1.NewConn(c, release)
		} else {
			secured := d.handshake(ctx, c, who, release)
			if secured == nil {
				return
			}
			conn, traffic = http1.NewConn(secured, nil), nil // it is counted below TLS
		}
		conn.SetWriteTimeout(gatewayWriteTimeout)
		v := &visitor{listener: d, from: who.client}
		limits := http1.Limits{Header: g.opts.HeaderTimeout, Idle: forward.ClientIdle}
		g.opts.Fast.ServeSite(ctx, conn, v, v.marks(d.tls != nil), traffic, limits, v.handOver)
	})
	if !ok {
		netconn.Cut(c) // the router is closed
		release()
	}
}

// handshake is nil where there is nothing more to do: it failed, or the client has
// chosen another protocol than HTTP/1.1.
func (d *httpListener) handshake(ctx context.Context, c net.Conn, who origin, release func()) *tls.Conn {
	if tcp, ok := c.(*net.TCPConn); ok {
		c = http1.NewDirect(tcp)
	}
	held := &netconn.HeldConn{Conn: &netconn.CountedConn{Conn: c, Traffic: &d.g.traffic, Timeout: gatewayWriteTimeout},
		Client: who.client, Release: release}
	conn := tls.Server(held, d.tls)
	ctx, cancel := context.WithTimeout(ctx, d.g.opts.HeaderTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		d.g.opts.Log.Debug("gateway: no handshake", "from", who.client.String(), "why", err)
		var record tls.RecordHeaderError
		if errors.As(err, &record) && record.Conn != nil && message.LooksLike(record.RecordHeader[:]) {
			_, _ = io.WriteString(record.Conn,
				"HTTP/1.0 400 Bad Request\r\n\r\n"+
					"This port speaks HTTPS, and this request came without TLS.\n") // it may have gone
		}
		_ = held.Close()
		return nil
	}
	switch conn.ConnectionState().NegotiatedProtocol {
	case "", "http/1.1":
		return conn
	}
	d.rest.Give(h2guard.Client(conn, d.g.opts.HeaderTimeout, d.g.opts.Flooded))
	return nil
}

// overTLS is where the context of a connection has its *tls.ConnectionState, if it began
// on the fast path.
type overTLS struct{}

// connContext lets requests of a connection with TLS know it, which the server of the
// standard library sees only where nothing is around that.
func (d *httpListener) connContext(ctx context.Context, c net.Conn) context.Context {
	for {
		if t, ok := c.(*tls.Conn); ok {
			state := t.ConnectionState()
			return context.WithValue(ctx, overTLS{}, &state)
		}
		n, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return ctx
		}
		c = n.NetConn()
	}
}

// visitor is a client of the gateway on the fast path.
type visitor struct {
	listener *httpListener
	from     net.Addr   // also where a balancer is between
	addr     netip.Addr // as limits count it
	known    bool       // addr is

	host   []byte // of the last request, as it came
	name   string // what that is in the table
	target []byte // without the prefix
}

// marks notes who it is, and returns what requests are marked with.
func (v *visitor) marks(secure bool) message.Marks {
	remote := v.from.String()
	if a, err := netip.ParseAddrPort(remote); err == nil {
		v.addr, v.known = accept.Client(a.Addr()), true
	}
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	m := message.Marks{Client: []byte(host), Proto: "http", Strangers: true}
	if secure {
		m.Proto = "https"
	}
	return m
}

// Serve is gateway.ServeHTTP for what is plainly for an instance. All else, and all
// that is to be refused, it leaves to that (false).
func (v *visitor) Serve(ctx context.Context, f *fastpath.Conn, x *http1.Exchange) bool {
	g, req := v.listener.g, &x.Request
	p, prefix, ok := v.published(g.routes.Load(), req)
	if !ok || v.listener.tls == nil &&
		(p.ingress.Redirects() || bytes.HasPrefix(req.Target(), []byte("/.well-known/acme-challenge/"))) {
		return false
	}
	s := p.Service
	if s.SpeaksH2(p.Port) || req.Get(fastpath.LowTimeLeft) != nil || req.Get(fastpath.LowGRPCTimeout) != nil {
		return false
	}
	if i := p.ingress; req.Length > 0 && (i.MaxBody > 0 && req.Length > int64(i.MaxBody) ||
		i.BodyTimeout != 0 && i.BodyTimeout != api.DefaultBodyTimeout && !x.Whole()) {
		return false
	}
	f.Marks.Target, f.Marks.Prefix = nil, ""
	if p.ingress.StripPrefix && prefix != "" {
		v.target = stripped(v.target[:0], req.Target(), prefix)
		f.Marks.Target, f.Marks.Prefix = v.target, prefix
	}
	if p.limit != nil && v.known {
		if _, ok := p.limit.Take(v.addr, time.Now()); !ok {
			return false // which costs nothing: the other one is refused alike, and says so
		}
	}
	g.requests.Add(1)
	f.Quiet = !p.ingress.LoadReport
	switch status := f.Forward(ctx, x, s, p.Port); {
	case status == http.StatusServiceUnavailable:
		g.noEndpoint.Add(1)
	case status > http.StatusInternalServerError:
		g.failed.Add(1)
	}
	return true
}

// published is where a request belongs, and the prefix of its path by which that was
// found.
func (v *visitor) published(t *routes, req *message.Request) (*published, string, bool) {
	if host := req.Host(); v.name == "" || !bytes.Equal(host, v.host) {
		v.host = append(v.host[:0], host...)
		v.name = ingress.CanonicalHost(string(host))
	}
	n, ok := t.ingress.Whole(v.name)
	prefix := ""
	if !ok {
		path, _, _ := bytes.Cut(req.Target(), []byte("?"))
		if !plainPath(path) {
			return nil, "", false
		}
		var found ingress.Found
		if n, prefix, found = t.ingress.Find(v.name, ingress.Path(string(path))); found != ingress.Match {
			return nil, "", false
		}
	}
	return &t.published[n], prefix, true
}

// handOver gives the connection to the driver for all of HTTP.
func (v *visitor) handOver(c net.Conn) {
	d := v.listener
	h2 := http1.IsHTTP2(c)
	if d.tls == nil {
		c = &netconn.HeldConn{
			Conn:   &netconn.CountedConn{Conn: c, Traffic: &d.g.traffic, Timeout: gatewayWriteTimeout},
			Client: v.from, Release: func() {}, // http1 does
		}
	}
	if h2 {
		c = h2guard.Client(c, d.g.opts.HeaderTimeout, d.g.opts.Flooded)
	}
	d.rest.Give(c)
}

// plainPath: it consists of what may be in a path as it is, or is encoded; what else
// clients send is encoded in more than one way before it is compared.
func plainPath(path []byte) bool {
	for _, c := range path {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			bytes.IndexByte([]byte("/-._~!$&'()*+,;=:@[]%"), c) >= 0:
		default:
			return false
		}
	}
	return true
}

// stripped appends a target without the prefix of its path, as strip has it.
func stripped(dst, target []byte, prefix string) []byte {
	path, query, asks := bytes.Cut(target, []byte("?"))
	rest := ingress.Path(string(path))[len(prefix):]
	if rest == "" {
		rest = "/"
	}
	dst = append(dst, rest...)
	if asks {
		dst = append(append(dst, '?'), query...)
	}
	return dst
}
