package forward

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/proxy/entries"
	"github.com/verge-edge/verge/internal/proxy/h2server"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/proxy/upstream"
	"github.com/verge-edge/verge/internal/wire"
)

// Limits of HTTP towards clients.
const (
	// HeaderTimeout is how long the head of a request may take.
	HeaderTimeout = 10 * time.Second
	// ClientIdle is how long a connection may rest between two requests. Another
	// router keeps one for upstream.IdleTimeout, so that it is never cut off in the middle.
	ClientIdle = 2 * upstream.IdleTimeout
	// maxRequestHeader bounds the head of a request.
	maxRequestHeader = 64 << 10
	// maxStreams of one HTTP/2 connection.
	maxStreams = 250
)

// Conn is a connection whose requests are looked at: of a client, for a port of a
// service, or of another router, for an instance.
type Conn struct {
	net.Conn
	Key     entries.Key     // of a client
	ID      wire.InstanceID // of another router
	Port    string          // of that
	once    sync.Once
	Release func()
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	defer c.once.Do(c.Release)
	return c.Conn.Close()
}

// Cut cuts the connection below, and releases it.
func (c *Conn) Cut() {
	netconn.Cut(c.Conn)
	_ = c.Close()
}

// CloseWrite passes a half-close on, which upgraded connections use.
func (c *Conn) CloseWrite() error {
	netconn.CloseWrite(c.Conn)
	return nil
}

// frontKey is where a request's context has its Conn.
type frontKey struct{}

// Options are what requests are served with.
type Options struct {
	Services *router.Services
	Log      *slog.Logger
	Reports  *httpmsg.LoadReports
	// HeaderTimeout is how long the head of a request may take.
	HeaderTimeout time.Duration
	// Draining says whether each answer is to be the last of its connection.
	Draining func() bool
}

// Front is the HTTP server of a router: what is accepted elsewhere is given to it.
type Front struct {
	opts  Options
	conns chan net.Conn
	over  chan struct{}  // closed when nothing is taken any more
	End   func()         // closes it
	busy  local.InFlight // requests, under the name ""
}

// New makes the server; Serve runs it.
func New(opts Options) *Front {
	f := &Front{opts: opts, conns: make(chan net.Conn), over: make(chan struct{}), busy: local.NewInFlight()}
	f.End = sync.OnceFunc(func() { close(f.over) })
	return f
}

// Serve serves until ctx ends.
func (f *Front) Serve(ctx context.Context) {
	srv := f.HttpServer(ctx, f)
	srv.ConnContext = func(ctx context.Context,
		c net.Conn) context.Context {
		return context.WithValue(ctx, frontKey{}, c)
	}
	defer context.AfterFunc(ctx, func() {
		f.End()
		_ = srv.Close()
	})()
	if err := srv.Serve(f); err != nil && ctx.Err() == nil {
		f.opts.Log.Error("requests of services are no longer served", "why", err)
	}
	f.End()
	<-f.busy.Drained("")
}

// HttpServer is one with the limits that hold for all clients, for HTTP/1.1 and, as
// clients of gRPC speak it without TLS, for HTTP/2.
func (f *Front) HttpServer(ctx context.Context, h http.Handler) *http.Server {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: f.opts.HeaderTimeout,
		IdleTimeout:       ClientIdle,
		MaxHeaderBytes:    maxRequestHeader,
		ErrorLog:          slog.NewLogLogger(f.opts.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	return srv
}

// Give hands a connection over, which is closed and released in the end whatever
// happens.
func (f *Front) Give(c *Conn) {
	select {
	case f.conns <- c:
	case <-f.over:
		netconn.Cut(c.Conn)
		_ = c.Close()
	}
}

// ServeH2 serves the requests of a connection over HTTP/2 until it ends, and closes it. ctx is
// that of the router; whoever ends it closes the connection too.
func (f *Front) ServeH2(ctx context.Context, c *Conn) {
	h2server.Serve(context.WithValue(ctx, frontKey{}, c), c, h2server.Options{
		Handler: f, Idle: ClientIdle, MaxHead: maxRequestHeader, MaxStreams: maxStreams, Log: f.opts.Log,
	})
}

// Accept implements net.Listener.
func (f *Front) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.over:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (f *Front) Close() error {
	f.End()
	return nil
}

// Addr implements net.Listener.
func (f *Front) Addr() net.Addr { return &net.TCPAddr{} }

// ServeHTTP serves a request of a client or of another router.
func (f *Front) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	defer f.busy.Add("")()
	f.LastOf(w)
	c, ok := req.Context().Value(frontKey{}).(*Conn)
	if req.Method != http.MethodConnect && httpmsg.RefuseMalformed(w, req) {
		return
	}
	switch {
	case !ok:
		httpmsg.Fail(w, req, http.StatusInternalServerError, "no-connection", "try again",
			"this request belongs to no connection")
	case c.ID != "":
		f.serveStream(w, req, c)
	default:
		f.serveRequest(w, req, c.Key)
	}
}

// serveRequest serves a request for a port of a service.
func (f *Front) serveRequest(w http.ResponseWriter, req *http.Request, k entries.Key) {
	s := f.opts.Services.Find(k.App + "." + k.Service)
	if s == nil {
		f.opts.Services.NoRoute.Add(1)
		httpmsg.Fail(w, req, http.StatusServiceUnavailable, "no-service", "\"verge get services\" lists the services",
			"service "+k.App+"."+k.Service+" is gone")
		return
	}
	f.Forward(w, req, router.Target{Service: s, Port: k.Port}, Rules{Report: true})
}

// LastOf lets a client's connection end after the answer, if the router drains.
func (f *Front) LastOf(w http.ResponseWriter) {
	if f.opts.Draining() {
		w.Header().Set("Connection", "close") // over HTTP/2: GOAWAY
	}
}
