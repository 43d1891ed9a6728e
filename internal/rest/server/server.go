// Package server serves the HTTP interface of a root or of a cluster: the operations of
// package rest over one Backend, described by OpenAPI 3.1.
//
// Promises:
//
//  1. TLS 1.3 always; every operation needs a client certificate of this root's
//     authority or a bearer token. Open are only join (which checks its own
//     token), liveness, readiness and the OpenAPI description.
//  2. Bodies, headers, connections and waiting times are bounded; a slow client
//     is cut off.
//  3. Every error is a problem document (RFC 9457) that says what, why and what
//     to do next; no panic reaches a client.
//  4. Every operation says what it needs of who asks (rest.Need), and is held
//     to it before it is run; one that does not is refused to everybody. What
//     somebody may not see is answered as if it did not exist.
//  5. What a role does not offer is answered with who does; a server of which a part of
//     the operations is neither offered nor referred does not start.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/server/audit"
	"github.com/verge-edge/verge/internal/rest/server/drain"
	"github.com/verge-edge/verge/internal/rest/server/eventstream"
	"github.com/verge-edge/verge/internal/rest/server/httplistener"
	"github.com/verge-edge/verge/internal/rest/server/schema"
	"github.com/verge-edge/verge/internal/rest/server/sessions"
	"github.com/verge-edge/verge/internal/tlsconf"
)

// Bounds of the server. A long poll (maxWait) must end before the request
// (requestTimeout), and that before the connection may be cut (writeTimeout).
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	maxWait           = 30 * time.Second
	requestTimeout    = 60 * time.Second
	writeTimeout      = 75 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
	maxConnections    = 512
	maxFromOneSource  = maxConnections / 2
	watchTimeout      = 10 * time.Second
)

// Options of a Server.
type Options struct {
	// Addr to listen on, host:port; port 0 takes a free one.
	Addr string
	// TLS has the server's certificates and the ClientCAs that client
	// certificates must come from. It is copied; TLS 1.3 and an optional client
	// certificate are set by the server.
	TLS *tls.Config
	// Backend answers the operations of those groups that it has. Required.
	Backend rest.Backend
	// Referrals say of all other operations where they are served.
	Referrals rest.Referrals
	// Authorize says who a verified client certificate is, or why it may not use
	// this interface. Nil: nobody may by certificate.
	Authorize func(tls.ConnectionState) (rest.Principal, error)
	// Site is the cluster whose interface this is; "" at a root.
	Site string
	// Notice says what to tell an authenticated caller beside every answer, by the
	// connection that it came by; "" nothing. Nil: nothing.
	Notice func(cs tls.ConnectionState) string
	// Log gets one line per change that was asked for. Nil: no log.
	Log *slog.Logger
	// Timeouts of slow clients.
	Timeouts Timeouts
	// Version is what /v1/version says; "" is "unknown".
	Version string
	// Metrics answers /metrics, and is told of each request. Nil: there are none.
	Metrics Metrics
}

// Timeouts are how long a client may take; 0 is the default. Who is slower is cut off.
type Timeouts struct {
	// Header to send the header of a request (5 s), Body to send the rest (30 s).
	Header, Body time.Duration
	// Answer to read the answer, from the request on (75 s), Watch to read a piece
	// of what a watch tells (10 s).
	Answer, Watch time.Duration
}

// withDefaults fills in what is 0.
func (t Timeouts) withDefaults() Timeouts {
	return Timeouts{
		Header: cmp.Or(t.Header, readHeaderTimeout), Body: cmp.Or(t.Body, readTimeout),
		Answer: cmp.Or(t.Answer, writeTimeout), Watch: cmp.Or(t.Watch, watchTimeout),
	}
}

// Metrics is what a server needs of obs.Metrics.
type Metrics interface {
	http.Handler
	// Request notes a request: the pattern that served it, the status and the time.
	Request(method, route string, status int, took time.Duration)
}

// Server serves a Backend over HTTPS.
type Server struct {
	// Set by New, never changed.
	backend   rest.Backend
	site      rest.Site
	referrals rest.Referrals
	authorize func(tls.ConnectionState) (rest.Principal, error)
	notice    func(tls.ConnectionState) string
	log       *slog.Logger
	version   string
	addr      string
	tls       *tls.Config
	timeouts  Timeouts
	metrics   Metrics // nil: none
	mux       *http.ServeMux
	handler   http.Handler
	doc       *schema.Document
	declared  map[string]audit.Operation // by pattern
	wrong     []error                    // found in what is declared

	limits   limits
	audit    *audit.Log
	drain    *drain.Drain
	watches  *eventstream.Streams
	sessions *sessions.Sessions
	// transfers has one for each object that is being moved.
	transfers chan struct{}

	// Set by Start.
	http     *http.Server
	listener net.Listener
	served   chan struct{}
}

// New checks o and builds the server; nothing listens before Start.
func New(o Options) (*Server, error) {
	s, err := build(o)
	if err == nil {
		err = errors.Join(s.wrong...)
	}
	if err != nil {
		return nil, fmt.Errorf("rest server: %w", err)
	}
	return s, nil
}

func build(o Options) (*Server, error) {
	if o.Backend == nil {
		return nil, errors.New("no backend")
	}
	s := &Server{
		backend: o.Backend, site: rest.Site{Name: o.Site, Locate: o.Backend.Locate}, referrals: o.Referrals,
		authorize: o.Authorize, notice: o.Notice, log: o.Log, version: cmp.Or(o.Version, "unknown"), addr: o.Addr,
		timeouts: o.Timeouts.withDefaults(), metrics: o.Metrics, mux: http.NewServeMux(),
		declared: map[string]audit.Operation{},
		limits:   newLimits(), drain: drain.New(), transfers: make(chan struct{}, maxTransfers),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.audit = audit.New(s.backend, s.site, s.log)
	if o.TLS != nil {
		s.tls = harden(o.TLS)
	}
	s.doc = schema.New(s.version, s.timeouts.Body)
	exec, _ := s.backend.(rest.Exec)
	s.sessions = sessions.New(exec, s.drain, s.log)
	s.watches = eventstream.New(eventstream.Options{
		Lists: s.lists(), Site: s.site, Draining: s.drain.Begun(), Timeout: s.timeouts.Watch, Log: s.log,
	})
	s.addOperations()
	s.addStreams()
	s.handler = s.observe(s.finish(s.limit(s.authenticate(s.mux))))
	return s, nil
}

// harden returns a copy of c, and of whatever it chooses for a client, that
// speaks TLS 1.3 and asks for a certificate without demanding one.
func harden(c *tls.Config) *tls.Config {
	c = tlsconf.Server(c, tls.VerifyClientCertIfGiven)
	if choose := c.GetConfigForClient; choose != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if chosen != nil {
				chosen.GetConfigForClient = nil
				chosen.NextProtos = []string{"http/1.1"}
			}
			return chosen, err
		}
	}
	return c
}

// Handler is the whole interface without the listener, for tests.
func (s *Server) Handler() http.Handler { return s.handler }

// Start binds the address and serves in the background until Close.
func (s *Server) Start() error {
	if s.tls == nil {
		return errors.New("rest server: no TLS configuration")
	}
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return listenError(s.addr, err)
	}
	s.listener = l
	s.http = &http.Server{
		Handler:           s.handler,
		TLSConfig:         s.tls,
		ReadHeaderTimeout: s.timeouts.Header,
		ReadTimeout:       s.timeouts.Body,
		WriteTimeout:      s.timeouts.Answer,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       httplistener.WithPlace,
		// Scanners and failed handshakes are not worth more than debug.
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		// HTTP/1.1 only: one request per connection makes maxConnections a bound
		// on all work in progress.
		Protocols: http1Only(),
	}
	s.served = make(chan struct{})
	bounded := httplistener.New(l, maxConnections, maxFromOneSource)
	go func() {
		defer close(s.served)
		if err := s.http.ServeTLS(bounded, "", ""); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("http interface stopped", "addr", l.Addr().String(), "err", err)
		}
	}()
	return nil
}

func http1Only() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	return &p
}

// Addr is the address that Start bound, nil before.
func (s *Server) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// Close ends what waits, lets other requests finish until ctx ends, and then stops
// accepting and cuts off what is left. Readiness fails from its first moment; who
// asks for it is answered until the rest has finished.
func (s *Server) Close(ctx context.Context) error {
	s.drain.Begin()
	defer s.watches.Close()
	defer s.sessions.Wait()
	if s.http == nil {
		return nil
	}
	s.drain.Wait(ctx)
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("rest server: shut down: %w", err), s.http.Close())
	}
	<-s.served
	return err
}

// listenError says which address could not be bound and what to do about it.
func listenError(addr string, err error) error {
	next := "choose another address with --api"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		next = "another process has this port: stop it (ss -ltnp shows it) or choose another address with --api"
	case errors.Is(err, syscall.EACCES):
		next = "choose a port above 1023 with --api"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		next = "this machine has no such address: choose one of its own with --api, or 0.0.0.0 for all"
	}
	return fmt.Errorf("listen on %s for the HTTP interface: %w\n  → %s", addr, err, next)
}

// Watching is how many watch now.
func (s *Server) Watching() int { return s.watches.Watching() }
