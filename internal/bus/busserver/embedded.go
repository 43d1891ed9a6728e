package busserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	// nats-server: the whole bus and its durable log as one library, so that a
	// tier is one process.
	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/time/rate" // a token bucket, which the server brings along

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/busconn"
	"github.com/verge-edge/verge/internal/bus/credentials"
	"github.com/verge-edge/verge/internal/bus/logstore"
)

const (
	// serverMaxPayload has room for a Commit of MaxCommitBytes; nodes have smaller
	// limits in their tokens.
	serverMaxPayload = bus.MaxCommitBytes + 1<<20
	readyTimeout     = 2 * time.Minute // a server that recovers a large store
	tlsTimeout       = 10              // seconds; small boards on slow links
	memoryLimit      = 1 << 20         // of JetStream's memory streams, which are not used
	closedHistory    = 16              // connections that ended, kept by the server for its monitor
	shutdownTimeout  = 20 * time.Second
	ownAttempts      = 5 // to connect to the own server
	// writeTimeout is how long the server waits for whoever does not read, as busconn.OwnTimeout.
	writeTimeout = time.Minute
)

// embedded is a running server and the connections of its owner.
type embedded struct {
	ns     *server.Server
	opts   *server.Options // as at the start, for reloads
	auth   *credentials.Authority
	log    *slog.Logger
	unlock func() // of the directory
	lines  *serverLog

	closing sync.Once

	mu    sync.Mutex
	conns []*busconn.Conn // guarded by mu; in the order they were made
}

// baseOptions are those that root and cluster share.
func baseOptions(name, domain, dir string) *server.Options {
	return &server.Options{
		ServerName:             name,
		StoreDir:               filepath.Join(dir, "jetstream"),
		JetStream:              true,
		JetStreamDomain:        domain,
		JetStreamMaxMemory:     memoryLimit,
		JetStreamMaxStore:      1 << 50, // our own check of the free space comes first
		SyncAlways:             true,    // acknowledged means on disk
		NoSigs:                 true,
		DisableJetStreamBanner: true,
		// A cache of a thousand subjects that is of no use to ten thousand peers with two
		// each: every message took a place in it from another.
		NoSublistCache:   true,
		MaxPayload:       serverMaxPayload,
		MaxClosedClients: closedHistory,
		PingInterval:     busconn.PingInterval,
		TLSTimeout:       tlsTimeout,
		AuthTimeout:      busconn.OwnTimeout.Seconds(), // own connections have no TLS before it
		WriteDeadline:    writeTimeout,
		DontListen:       true,
	}
}

// start takes the directory, opens its authority with the named accounts, and
// runs a server with them. On an error nothing is left running.
func start(
	ctx context.Context, dir string, opts *server.Options, peer Peer, log *slog.Logger, accounts ...string,
) (_ *embedded, err error) {
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	if err := logstore.Check(dir); err != nil {
		return nil, err
	}
	auth, err := credentials.Open(dir, accounts...)
	if err != nil {
		return nil, err
	}
	operator, err := auth.OperatorClaims()
	if err != nil {
		return nil, err
	}
	opts.TrustedOperators = []*jwt.OperatorClaims{operator}
	opts.SystemAccount = operator.SystemAccount
	resolver := &server.MemAccResolver{}
	opts.AccountResolver = resolver
	for _, name := range auth.Names("") {
		claims, token, err := auth.AccountClaims(name)
		if err != nil {
			return nil, err
		}
		if err := resolver.Store(claims.Subject, token); err != nil {
			return nil, fmt.Errorf("give account %s to the server: %w", name, err)
		}
	}
	logger := &serverLog{log: log, handshakes: rate.NewLimiter(rate.Every(time.Minute), failedHandshakes), fatal: make(chan string, 1)}
	admit := &admission{peer: peer, log: logger}
	opts.CustomClientAuthentication = admit
	// The server takes over and changes its options; those kept for a later
	// reload must be our own.
	given := opts.Clone()
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("make bus server: %w", err)
	}
	admit.ns = ns
	ns.SetLoggerV2(logger, false, false, false)
	started := make(chan struct{})
	go func() {
		defer close(started)
		ns.Start() // ends with Shutdown
	}()
	if err := waitReady(ctx, ns, logger); err != nil {
		// Not before it has started: one that is shut down meanwhile goes on for a
		// while, writes, and takes its shutdown's fields without their lock.
		select {
		case <-started:
		case <-time.After(shutdownTimeout):
		}
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, err
	}
	setLogListInterval(ns, logListEvery)
	return &embedded{ns: ns, opts: given, auth: auth, log: log, unlock: unlock, lines: logger}, nil
}

func waitReady(ctx context.Context, ns *server.Server, logger *serverLog) error {
	ready := make(chan bool, 1)
	go func() { ready <- ns.ReadyForConnections(readyTimeout) }()
	select {
	case text := <-logger.fatal:
		return fmt.Errorf("start bus server: %s", text)
	case <-ctx.Done():
		return fmt.Errorf("start bus server: %w", ctx.Err())
	case ok := <-ready:
		if !ok {
			return errors.New("start bus server: it does not become ready")
		}
	}
	return nil
}

// connect makes an in-process connection into an account; linked: see conn.
func (e *embedded) connect(account string, linked bool) (*busconn.Conn, error) {
	token, sign, err := e.auth.OwnToken(account)
	if err != nil {
		return nil, err
	}
	own := busconn.InProcess{Server: e.ns, Name: "verge " + account, Token: token, Sign: sign, Linked: linked, Log: e.log}
	c, err := busconn.DialInProcess(own)
	// On a machine that is very busy the server asks whether we are still there before
	// it has greeted us, and the client takes that for an error.
	for n := 1; err != nil && n < ownAttempts && e.ns.Running(); n++ {
		e.log.Debug("connecting to the own bus server", "account", account, "attempt", n, "error", err)
		c, err = busconn.DialInProcess(own)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to own bus server in account %s: %w", account, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conns = append(e.conns, c)
	return c, nil
}

// dialStore makes another connection into the account of the store.
func (e *embedded) dialStore() (*nats.Conn, error) {
	c, err := e.connect(credentials.AccountStore, false)
	if err != nil {
		return nil, err
	}
	return c.NC(), nil
}

// release closes a connection that is no longer needed.
func (e *embedded) release(c *busconn.Conn) {
	c.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conns = slices.DeleteFunc(e.conns, func(o *busconn.Conn) bool { return o == c })
}

// refresh tells the server the current claims of an account.
func (e *embedded) refresh(claims *jwt.AccountClaims, token string) error {
	if err := e.ns.AccountResolver().Store(claims.Subject, token); err != nil {
		return fmt.Errorf("give account %s to the server: %w", claims.Name, err)
	}
	acc, err := e.ns.LookupAccount(claims.Subject)
	if err != nil {
		return fmt.Errorf("look up account %s: %w", claims.Name, err)
	}
	e.ns.UpdateAccountClaims(acc, claims)
	return nil
}

// close ends the connections, newest first, then the server. Further calls wait
// for the first.
func (e *embedded) close() { e.closing.Do(e.shutdown) }

func (e *embedded) shutdown() {
	e.mu.Lock()
	conns := e.conns
	e.conns = nil
	e.mu.Unlock()
	for i := len(conns) - 1; i >= 0; i-- {
		conns[i].Close()
	}
	e.ns.Shutdown()
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.ns.WaitForShutdown()
	}()
	select {
	case <-done:
	case <-time.After(shutdownTimeout):
		e.log.Warn("bus server does not stop")
	}
	e.unlock()
}

// splitListen parses an address to listen on.
func splitListen(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("listen address %q is not host:port: %w", addr, err)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("listen address %q: port must be 0 to 65535", addr)
	}
	if port == 0 {
		port = -1 // the server's word for "any free one"
	}
	if host == "" {
		host = anyHost()
	}
	return host, port, nil
}

// anyHost is the address that stands for all of the machine: IPv6 and IPv4, or
// IPv4 alone where the kernel has no IPv6.
func anyHost() string {
	l, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		return "0.0.0.0"
	}
	_ = l.Close()
	return "::"
}

// checkFree gives a clear error for an address that is taken, before anything
// else of a server is started; else it returns the address as a listener has it.
func checkFree(addr string) (as string, err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("listen on %s: %w (another process may use the port: choose another one or stop it)", addr, err)
	}
	return l.Addr().String(), l.Close()
}

// serverLog passes the server's lines on. Its own levels are about a server
// that someone operates; here only errors may matter to anyone.
type serverLog struct {
	log *slog.Logger
	// refused: the other end of a link has said that it does not let us in.
	refused atomic.Bool
	// handshakes bounds what is said of those who fail to prove who they are: they
	// may try for ever.
	handshakes *rate.Limiter
	fatal      chan string // capacity 1
}

// Of failed handshakes the first some are logged, and then one a minute.
const failedHandshakes = 10

func (l *serverLog) Noticef(format string, v ...any) { l.debug(format, v) }
func (l *serverLog) Warnf(format string, v ...any)   { l.debug(format, v) }
func (l *serverLog) Debugf(format string, v ...any)  { l.debug(format, v) }
func (l *serverLog) Tracef(format string, v ...any)  { l.debug(format, v) }

func (l *serverLog) debug(format string, v []any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("bus server", "line", fmt.Sprintf(format, v...))
	}
}

func (l *serverLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	refused := strings.Contains(text, refusedText) || strings.Contains(text, revokedText)
	if refused && l.refused.Swap(true) {
		return // said before; it is tried again every second
	}
	if strings.Contains(text, "handshake error") && !l.handshakes.Allow() {
		return
	}
	l.log.Warn("bus server", "line", text)
}

// refusedText is what a server says to whom it does not let in, and all that the
// one who asked learns of it; revokedText what it says to whom it cuts off.
const (
	refusedText = "Authorization Violation"
	revokedText = "Authentication Revoked"
)

// last is what Fatalf was told and nobody has heard, in words.
func (l *serverLog) last() string {
	select {
	case text := <-l.fatal:
		return text
	default:
		return "it is shutting down"
	}
}

// Fatalf is where the server expects the process to end; start reports it.
func (l *serverLog) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.log.Warn("bus server", "line", text)
	select {
	case l.fatal <- text:
	default:
	}
}
