package rest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	// rate: token bucket, already linked by the bus.
	"golang.org/x/time/rate"

	"github.com/verge-edge/verge/internal/watch"
)

// noticeHeader carries what the server has to say beside an answer.
const noticeHeader = "Verge-Notice"

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
	maxJoinBytes      = 16 << 10
	maxConnections    = 512
	maxFromOneSource  = maxConnections / 2
	joinsPerSecond    = 5 // that are refused
	joinBurst         = 20
	goodPerSecond     = 500 // all: a site may join behind one address
	goodBurst         = 1000
	watchPatience     = 10 * time.Second
	guessesPerSecond  = 1
	guessBurst        = 20
)

// Options of a Server.
type Options struct {
	// Addr to listen on, host:port; port 0 takes a free one.
	Addr string
	// TLS has the server's certificates and the ClientCAs that client
	// certificates must come from. It is copied; TLS 1.3 and an optional client
	// certificate are set by the server.
	TLS *tls.Config
	// Backend answers the operations. Required.
	Backend Backend
	// Authorize says who a verified client certificate is, or why it may not use
	// this interface. Nil: nobody may by certificate.
	Authorize func(tls.ConnectionState) (Principal, error)
	// Site is the cluster whose interface this is; "" at a root.
	Site string
	// Notice says what to tell an authenticated caller beside every answer, by the
	// connection that it came by; "" nothing. Nil: nothing.
	Notice func(cs tls.ConnectionState) string
	// Log gets one line per change that was asked for. Nil: no log.
	Log *slog.Logger
	// Patience with slow clients.
	Patience Patience
	// Version is what /v1/version says; "" is "unknown".
	Version string
	// Metrics answers /metrics, and is told of each request. Nil: there are none.
	Metrics Metrics
}

// Patience is how long a client may take; 0 is the usual. Who is slower is cut off.
type Patience struct {
	// Header to send the header of a request (5 s), Body to send the rest (30 s).
	Header, Body time.Duration
	// Answer to read the answer, from the request on (75 s), Watch to read a piece
	// of what a watch tells (10 s).
	Answer, Watch time.Duration
}

// usual fills in what is 0.
func (p Patience) usual() Patience {
	return Patience{
		Header: cmp.Or(p.Header, readHeaderTimeout), Body: cmp.Or(p.Body, readTimeout),
		Answer: cmp.Or(p.Answer, writeTimeout), Watch: cmp.Or(p.Watch, watchPatience),
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
	backend   Backend
	authorize func(tls.ConnectionState) (Principal, error)
	notice    func(tls.ConnectionState) string
	site      string
	log       *slog.Logger
	version   string
	addr      string
	tls       *tls.Config
	joins     *sources // of join requests that were refused
	goodJoins *sources // of all join requests
	guesses   *sources // of refused credentials
	trusted   trusted
	renewals  *sources // of requests to renew
	mux       *http.ServeMux
	metrics   Metrics // nil: none
	handler   http.Handler
	needs     map[string]need // by pattern
	wrong     []error         // found in needs

	// What is refused is recorded up to these.
	refusals    *sources
	allRefusals *rate.Limiter
	unrecorded  atomic.Int64 // refusals since the last that was

	// transfers has one for each object that is being moved.
	transfers chan struct{}

	// draining is closed when Close begins: waiting requests answer at once.
	draining chan struct{}
	drain    func()

	work     work // requests that are being answered
	hub      *watch.Hub
	watchers watchers
	sessions sessions // that somebody goes on with
	patience Patience

	// Set by Start.
	http     *http.Server
	listener net.Listener
	served   chan struct{}
}

// New checks o and builds the server; nothing listens before Start.
func New(o Options) (*Server, error) {
	if o.Backend == nil {
		return nil, errors.New("rest server: no backend")
	}
	s := &Server{
		backend: o.Backend, authorize: o.Authorize, notice: o.Notice, site: o.Site, needs: map[string]need{}, log: o.Log, version: o.Version, addr: o.Addr,
		joins: newSources(joinsPerSecond, joinBurst), goodJoins: newSources(goodPerSecond, goodBurst), guesses: newSources(guessesPerSecond, guessBurst),
		refusals: newSources(refusalsPerSecond, refusalBurst), allRefusals: rate.NewLimiter(allRefusalsPerSecond, allRefusalBurst),
		renewals:  newSources(renewalsPerSecond, renewalBurst),
		transfers: make(chan struct{}, maxTransfers),
		mux:       http.NewServeMux(), metrics: o.Metrics, patience: o.Patience.usual(),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.version == "" {
		s.version = "unknown"
	}
	if o.TLS != nil {
		s.tls = harden(o.TLS)
	}
	s.hub = s.watches()
	s.draining = make(chan struct{})
	s.drain = sync.OnceFunc(func() { close(s.draining) })
	api := s.newAPI()
	s.registerOperations(api)
	s.registerPlain(api)
	describeDecisions(api.OpenAPI().Components.Schemas)
	if err := errors.Join(s.wrong...); err != nil {
		return nil, fmt.Errorf("rest server: %w", err)
	}
	s.handler = s.observe(s.finish(s.limit(s.authenticate(s.mux))))
	return s, nil
}

// harden returns a copy of c, and of whatever it chooses for a client, that
// speaks TLS 1.3 and asks for a certificate without demanding one.
func harden(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.MinVersion = tls.VersionTLS13
	c.ClientAuth = tls.VerifyClientCertIfGiven
	if c.ClientCAs == nil {
		// Without a pool Go would trust the system's authorities.
		c.ClientAuth = tls.NoClientCert
	}
	if choose := c.GetConfigForClient; choose != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if err != nil || chosen == nil {
				return nil, err
			}
			chosen = harden(chosen)
			chosen.GetConfigForClient = nil
			chosen.NextProtos = []string{"http/1.1"}
			return chosen, nil
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
		ReadHeaderTimeout: s.patience.Header,
		ReadTimeout:       s.patience.Body,
		WriteTimeout:      s.patience.Answer,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       withPlace,
		// Scanners and failed handshakes are not worth more than debug.
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		// HTTP/1.1 only: one request per connection makes maxConnections a bound
		// on all work in progress.
		Protocols: http1Only(),
	}
	s.served = make(chan struct{})
	bounded := boundListener(l, maxConnections, maxFromOneSource)
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
	s.drain()
	defer s.hub.Close()
	defer s.endSessions()
	if s.http == nil {
		return nil
	}
	s.work.end(ctx)
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
