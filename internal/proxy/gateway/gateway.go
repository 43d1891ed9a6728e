package gateway

import (
	"context"
	"crypto/tls"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/accept"
	"github.com/verge-edge/verge/internal/proxy/certs"
	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/fastpath"
	"github.com/verge-edge/verge/internal/proxy/forward"
	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/proxy/ingress"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/proxy/sockets"
	"github.com/verge-edge/verge/internal/tlsconf"
	"github.com/verge-edge/verge/internal/wire"
)

// gatewayWriteTimeout is how long a client may take none of what is sent to it.
const gatewayWriteTimeout = 60 * time.Second

// Gateway is what users meet at a gateway: listeners and certificates, which service a
// request is for, and how much a client may send.
type Gateway struct {
	opts    Options
	routes  atomic.Pointer[routes] // replaced as a whole
	certs   *certs.Store
	Conns   sockets.Limiter
	clients clients
	// busy counts requests, under the name "".
	busy  local.InFlight
	Ports gatePorts

	requests   atomic.Uint64
	unknown    atomic.Uint64 // no such host or path
	limited    atomic.Uint64 // 429, or a connection that was closed for that
	rejected   atomic.Uint64 // connections over a limit
	badProxy   atomic.Uint64 // connections of balancers that did not say whose they are
	noEndpoint atomic.Uint64 // 503
	failed     atomic.Uint64 // 502 and more
	traffic    counters.Bytes
}

// Options are what a gateway listens at and serves with.
type Options struct {
	Services *router.Services
	Front    *forward.Front
	Fast     *fastpath.Driver
	Opener   *sockets.Opener
	Log      *slog.Logger
	Spawn    func(func(context.Context)) bool
	Draining func() bool
	Flooded  *atomic.Uint64 // connections of HTTP/2 that were cut for it
	// Addr is where it listens for HTTP ("" nowhere), TLSAddr where for HTTP with TLS, and
	// Listens where it does now, with the actual port numbers.
	Addr, TLSAddr string
	Listens       func() (plain, secure string)
	// Ports are the first and the last port that may be published; zero: any from 1 on.
	Ports [2]int
	// ProxyFrom are the balancers in front.
	ProxyFrom []netip.Prefix
	Certs     certs.Options
	// SelfSigned: each host has TLS.
	SelfSigned bool
	// Changed is called when state may say something else; may be nil.
	Changed       func()
	HeaderTimeout time.Duration
	MaxConns      int
}

// routes are what a gateway publishes: by host and path, where ingress finds the index in
// published, and by port.
type routes struct {
	ingress   *ingress.Table
	published []published
	ports     map[gatePort]published
}

// published is a port with an ingress.
type published struct {
	router.Target
	namespace string
	ingress   *api.Ingress
	limit     *ingress.Limit // nil where there is none
}

// New makes a gateway that listens nowhere yet.
func New(opts Options) *Gateway {
	g := &Gateway{opts: opts, busy: local.NewInFlight()}
	g.Conns.Max = int64(opts.MaxConns)
	g.clients = clients{most: max(1, opts.MaxConns/2), all: opts.MaxConns, open: map[netip.Addr]int{}}
	g.Ports = gatePorts{gate: g, open: map[gatePort]*portListener{}}
	g.certs = certs.New(opts.Certs)
	none := &routes{}
	none.ingress, _ = ingress.New(nil)
	g.routes.Store(none)
	return g
}

// enabled says whether users are to come here.
func (g *Gateway) enabled() bool { return g.opts.Addr != "" || g.opts.TLSAddr != "" }

// Close ends what it does by itself.
func (g *Gateway) Close() { g.certs.Close() }

// Serve serves HTTP without TLS until ctx ends and waits for the requests that it cut
// off then.
func (g *Gateway) Serve(ctx context.Context, ln net.Listener) {
	g.serveHTTP(ctx, ln, nil)
}

// ServeTLS is serve with TLS.
func (g *Gateway) ServeTLS(ctx context.Context, ln net.Listener) {
	cfg := tlsconf.Public()
	cfg.GetCertificate = g.certs.Get
	cfg.NextProtos = []string{"h2", "http/1.1", certs.ACMEProtocol}
	g.serveHTTP(ctx, ln, cfg)
}

func (g *Gateway) serveHTTP(ctx context.Context, ln net.Listener, cfg *tls.Config) {
	srv := g.opts.Front.HttpServer(ctx, g)
	if srv.TLSConfig = cfg; cfg != nil {
		srv.Protocols.SetHTTP2(true)
	}
	d := &httpListener{g: g, tls: cfg, rest: http1.NewListener(ln.Addr())}
	srv.ConnContext = d.connContext
	defer context.AfterFunc(ctx, func() {
		_ = srv.Close()
		_ = d.rest.Close()
	})()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(d.rest) // ends with it
	}()
	// It is given no connection by that, but waits where the system has none to give.
	err := srv.Serve(&boundedListener{Listener: ln, to: d})
	if g.opts.Draining() {
		<-ctx.Done() // what was accepted is served
	} else if err != nil && ctx.Err() == nil {
		g.opts.Log.Error("gateway ended", "addr", ln.Addr().String(), "why", err)
	}
	_ = ln.Close() // closed already, unless Serve ended by itself
	_ = d.rest.Close()
	<-ended
	<-g.busy.Drained("")
}

// Opened passes the gateway's ports to the ACME accounts.
func (g *Gateway) Opened() {
	g.certs.Listen(g.opts.Listens())
}

// ServeHTTP finds the service of a request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	defer g.busy.Add("")()
	g.requests.Add(1)
	g.opts.Front.LastOf(w)
	if state, ok := req.Context().Value(overTLS{}).(*tls.ConnectionState); ok && req.TLS == nil {
		req.TLS = state
	}
	if httpmsg.RefuseMethod(w, req) || httpmsg.RefuseMalformed(w, req) {
		return
	}
	if req.TLS == nil && g.certs.ServeChallenge(w, req) {
		return
	}
	t := g.routes.Load()
	host, path := ingress.CanonicalHost(req.Host), ingress.Path(req.URL.EscapedPath())
	n, prefix, found := t.ingress.Find(host, path)
	if found != ingress.Match {
		g.unknown.Add(1)
		httpmsg.Refuse(w, req, notPublished(found, host))
		return
	}
	p := &t.published[n]
	if req.TLS == nil && p.ingress.Redirects() {
		g.redirect(w, req, host)
		return
	}
	if wait, ok := p.take(req.RemoteAddr); !ok {
		g.limited.Add(1)
		seconds := int(math.Ceil(wait.Seconds()))
		w.Header().Set("Retry-After", strconv.Itoa(max(1, seconds)))
		httpmsg.Refuse(w, req, wire.Problemf(http.StatusTooManyRequests, "too-many-requests",
			"send fewer requests, or wait as Retry-After says",
			"too many requests of this client", "%s takes %d requests a second of each client", host,
			p.ingress.RateLimit.Requests))
		return
	}
	how := forward.Rules{Strangers: true, Report: p.ingress.LoadReport}
	if p.ingress.StripPrefix && prefix != "" {
		stripped, err := strip(req, path, prefix)
		if err != nil {
			g.unknown.Add(1)
			httpmsg.Refuse(w, req, notPublished(ingress.NoPath, host))
			return
		}
		req, how.Prefix = stripped, prefix
	}
	if w, req, body, ok := forward.Bounded(w, req, p.ingress); ok {
		defer body.Finish()
		switch status := g.opts.Front.Forward(w, req, p.Target, how); {
		case status == http.StatusServiceUnavailable:
			g.noEndpoint.Add(1)
		case status > http.StatusInternalServerError:
			g.failed.Add(1)
		}
	}
}

// take takes one request of a client.
func (p *published) take(remote string) (wait time.Duration, ok bool) {
	if p.limit == nil {
		return 0, true
	}
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return 0, true // no address of a network
	}
	return p.limit.Take(accept.Client(a.Addr()), time.Now())
}

// notPublished says that nothing is here, and nothing about what else is.
func notPublished(why ingress.Found, host string) *wire.Problem {
	if why == ingress.NoHost {
		return wire.Problemf(http.StatusNotFound, "unknown-host",
			"give a port of a service \"ingress: {host: NAME}\" and apply it; or send the host name of one that has it",
			"no service for this host", "nothing publishes the host %.255q at this gateway", host)
	}
	if why == ingress.OddPath {
		return wire.Problemf(http.StatusBadRequest, "odd-path", "send the path without . and ..",
			"the path has dot segments", "which service of %.255q it belongs to depends on who resolves them", host)
	}
	return wire.Problemf(http.StatusNotFound, "unknown-path",
		"add the path to \"paths\" of an ingress of the host; or send one that it has",
		"no service for this path", "nothing publishes this path of %.255q at this gateway", host)
}

// redirect sends a client to the same address with TLS.
func (g *Gateway) redirect(w http.ResponseWriter, req *http.Request, host string) {
	_, own := g.opts.Listens()
	if own == "" {
		httpmsg.Refuse(w, req, wire.Problemf(http.StatusServiceUnavailable, "no-tls",
			"start the worker with --gateway-tls :8443, or write \"redirect: false\"",
			"this gateway has no port for TLS", "%.255q is published with TLS", host))
		return
	}
	// Who came by the usual port is behind something that maps ports.
	if _, port, err := net.SplitHostPort(req.Host); err == nil && port != "80" {
		_, tlsPort, err := net.SplitHostPort(own)
		if err == nil && tlsPort != "443" {
			host = net.JoinHostPort(host, tlsPort)
		}
	}
	u := url.URL{Scheme: "https", Host: host, Path: req.URL.Path, RawPath: req.URL.RawPath, RawQuery: req.URL.RawQuery}
	w.Header().Set("Location", u.String())
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusPermanentRedirect)
}

// strip is a request without the prefix of its path, which is path in the form in
// which it was compared.
func strip(req *http.Request, path, prefix string) (*http.Request, error) {
	rest := strings.TrimPrefix(path, prefix)
	if rest == "" {
		rest = "/"
	}
	plain, err := url.PathUnescape(rest)
	if err != nil {
		return nil, err
	}
	out, u := *req, *req.URL
	u.Path, u.RawPath = plain, rest
	out.URL, out.RequestURI = &u, u.RequestURI()
	return &out, nil
}

// Publish replaces what is published. Limits keep what they know of clients.
func (g *Gateway) Publish(ports []router.PublishedPort) {
	before, next := g.routes.Load(), &routes{ports: map[gatePort]published{}}
	var rules []ingress.Rule
	var wants []certs.Want
	withTLS := map[string]string{} // key of the service, by host
	for _, given := range ports {
		p := published{Target: given.Target, namespace: given.Namespace, ingress: given.Ingress}
		i := p.ingress
		p.limit = before.limitOf(&p)
		if i.Port != 0 {
			key := gatePort{given.UDP, i.Port}
			if other, twice := next.ports[key]; twice {
				g.opts.Log.Warn("a port of the gateways is published twice", "port", key.String(), "served",
					other.Service.Key, "ignored", p.Service.Key)
				continue
			}
			next.ports[key] = p
			continue
		}
		host := ingress.CanonicalHost(i.Host)
		next.published = append(next.published, p)
		rules = append(rules, ingress.Rule{Host: host, Prefixes: i.Prefixes()})
		if w, ok := g.want(&p, host); ok && withTLS[host] == "" {
			withTLS[host] = p.Service.Key
			wants = append(wants, w)
		}
	}
	var twice []ingress.Conflict
	next.ingress, twice = ingress.New(rules)
	for _, c := range twice {
		g.opts.Log.Warn("a host is published twice", "host", c.Host+c.Prefix, "served",
			next.published[c.First].Service.Key, "ignored", next.published[c.Other].Service.Key)
	}
	g.routes.Store(next)
	if g.enabled() {
		g.certs.Set(wants)
	}
}

// Open opens the listeners of what is published and closes the others.
func (g *Gateway) Open() {
	if g.enabled() {
		g.Ports.set(g.routes.Load().ports)
	}
}

// want is the certificate that a host needs; false if none.
func (g *Gateway) want(p *published, host string) (certs.Want, bool) {
	selfSigned := g.opts.SelfSigned
	w := certs.Want{Host: host}
	switch t := p.ingress.TLS; {
	case t.Secret != "":
		w.Source, w.Namespace, w.Secret = certs.FromSecret, p.namespace, t.Secret
	case t.Mode == api.TLSACME && (!selfSigned || g.opts.Certs.ACME.Directory != ""):
		w.Source = certs.ACME
	case t.Mode == api.TLSSelfSigned, selfSigned:
		w.Source = certs.SelfSigned
	default:
		return w, false
	}
	return w, true
}

// limitOf is the Limit of a port, the one of before where nothing has changed.
func (t *routes) limitOf(p *published) *ingress.Limit {
	l := p.ingress.RateLimit
	if l == nil {
		return nil
	}
	same := func(o *published) bool {
		return o.limit != nil && o.Service == p.Service && o.Port == p.Port && o.ingress.RateLimit != nil &&
			*o.ingress.RateLimit == *l
	}
	if i := slices.IndexFunc(t.published, func(o published) bool { return same(&o) }); i >= 0 {
		return t.published[i].limit
	}
	for _, o := range t.ports {
		if same(&o) {
			return o.limit
		}
	}
	return ingress.NewLimit(l.Requests, l.Burst)
}

// clients counts the connections of each client, so that one cannot have all.
type clients struct {
	most int // of one client
	all  int // of all clients together

	mu    sync.Mutex // guards below
	open  map[netip.Addr]int
	total int
}

// perFree connections may a client have for each that is free. So a few clients that take
// all they can leave some to others: two of them a ninth, three a thirteenth.
const perFree = 4

// take is false where a client has as many as it may have. give is to be called once
// otherwise.
func (c *clients) take(remote net.Addr) (give func(), ok bool) {
	tcp, is := remote.(*net.TCPAddr)
	if !is {
		return func() {}, true
	}
	client := accept.Client(tcp.AddrPort().Addr())
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.open[client]; n >= c.most || n > 0 && n >= perFree*(c.all-c.total) {
		return nil, false
	}
	c.open[client]++
	c.total++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.total--
		if c.open[client]--; c.open[client] == 0 {
			delete(c.open, client)
		}
	}, true
}

// boundedListener closes connections beyond the limits at once, and lets the others in
// to its httpListener.
type boundedListener struct {
	net.Listener
	to *httpListener
}

// Accept implements net.Listener, but returns errors only.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, accept.Passing(err)
		}
		l.to.open(c)
	}
}
