package proxy

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/wire"
)

// Limits of HTTP towards clients.
const (
	// headerTimeout is how long the head of a request may take.
	headerTimeout = 10 * time.Second
	// clientIdle is how long a connection may rest between two requests. Another
	// router keeps one for upstreamIdle, so that it is never cut off in the middle.
	clientIdle = 2 * upstreamIdle
	// maxRequestHeader bounds the head of a request.
	maxRequestHeader = 64 << 10
	// maxStreams of one HTTP/2 connection.
	maxStreams = 250
)

// frontConn is a connection whose requests are looked at: of a client, for a port of a
// service, or of another router, for an instance.
type frontConn struct {
	net.Conn
	key     entryKey        // of a client
	id      wire.InstanceID // of another router
	port    string          // of that
	once    sync.Once
	release func()
}

// Close implements net.Conn.
func (c *frontConn) Close() error {
	defer c.once.Do(c.release)
	return c.Conn.Close()
}

// Cut cuts the connection below, and releases it.
func (c *frontConn) Cut() {
	netconn.Cut(c.Conn)
	_ = c.Close()
}

// CloseWrite passes a half-close on, which upgraded connections use.
func (c *frontConn) CloseWrite() error {
	netconn.CloseWrite(c.Conn)
	return nil
}

// frontKey is where a request's context has its frontConn.
type frontKey struct{}

// frontOptions are what requests are served with.
type frontOptions struct {
	Services *services
	Log      *slog.Logger
	Reports  *httpmsg.LoadReports
	// HeaderTimeout is how long the head of a request may take.
	HeaderTimeout time.Duration
	// Draining says whether each answer is to be the last of its connection.
	Draining func() bool
}

// front is the HTTP server of a router: what is accepted elsewhere is given to it.
type front struct {
	opts  frontOptions
	conns chan net.Conn
	over  chan struct{} // closed when nothing is taken any more
	end   func()        // closes it
	busy  inflight      // requests, under the name ""
}

func newFront(opts frontOptions) *front {
	f := &front{opts: opts, conns: make(chan net.Conn), over: make(chan struct{}), busy: newInflight()}
	f.end = sync.OnceFunc(func() { close(f.over) })
	return f
}

// serve serves until ctx ends.
func (f *front) serve(ctx context.Context) {
	srv := f.httpServer(ctx, f)
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, frontKey{}, c) }
	defer context.AfterFunc(ctx, func() {
		f.end()
		_ = srv.Close()
	})()
	if err := srv.Serve(f); err != nil && ctx.Err() == nil {
		f.opts.Log.Error("requests of services are not served any more", "why", err)
	}
	f.end()
	<-f.busy.drained("")
}

// httpServer is one with the limits that hold for all clients, for HTTP/1.1 and, as
// clients of gRPC speak it without TLS, for HTTP/2.
func (f *front) httpServer(ctx context.Context, h http.Handler) *http.Server {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: f.opts.HeaderTimeout,
		IdleTimeout:       clientIdle,
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

// give hands a connection over, which is closed and released in the end whatever
// happens.
func (f *front) give(c *frontConn) {
	select {
	case f.conns <- c:
	case <-f.over:
		netconn.Cut(c.Conn)
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (f *front) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.over:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (f *front) Close() error {
	f.end()
	return nil
}

// Addr implements net.Listener.
func (f *front) Addr() net.Addr { return &net.TCPAddr{} }

// ServeHTTP serves a request of a client or of another router.
func (f *front) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	defer f.busy.add("")()
	f.lastOf(w)
	c, ok := req.Context().Value(frontKey{}).(*frontConn)
	if req.Method != http.MethodConnect && httpmsg.RefuseMalformed(w, req) {
		return
	}
	switch {
	case !ok:
		httpmsg.Fail(w, req, http.StatusInternalServerError, "no-connection", "try again", "this request belongs to no connection")
	case c.id != "":
		f.serveStream(w, req, c)
	default:
		f.serveRequest(w, req, c.key)
	}
}

// serveRequest serves a request for a port of a service.
func (f *front) serveRequest(w http.ResponseWriter, req *http.Request, k entryKey) {
	s := f.opts.Services.find(k.app + "." + k.service)
	if s == nil {
		f.opts.Services.noRoute.Add(1)
		httpmsg.Fail(w, req, http.StatusServiceUnavailable, "no-service", "\"verge get services\" says what there is",
			"service "+k.app+"."+k.service+" is not there any more")
		return
	}
	f.forward(w, req, target{Service: s, Port: k.port}, forwarding{report: true})
}

// lastOf lets a client's connection end after the answer, if the router drains.
func (f *front) lastOf(w http.ResponseWriter) {
	if f.opts.Draining() {
		w.Header().Set("Connection", "close") // over HTTP/2: GOAWAY
	}
}
