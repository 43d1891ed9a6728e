package busconn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	// nats.go: the client of nats-server.
	"github.com/nats-io/nats.go"

	"github.com/verge-edge/verge/internal/bus"
)

var _ bus.Conn = (*Conn)(nil)

const (
	// flushTimeout bounds how long Subscribe waits to hear that it was accepted.
	flushTimeout = 5 * time.Second
	// writeBuffer of a connection; the client's default of 32 KiB is for bulk.
	writeBuffer = 8 << 10
	// PingInterval on both sides of every connection. The heartbeats of the tiers
	// are what finds a dead peer; this only cleans up after them.
	PingInterval = 2 * time.Minute
)

// Conn is a Conn over NATS.
type Conn struct {
	log   *slog.Logger
	allow bus.Permissions
	// linked: the peers are behind a leaf link, and Connected tells about that:
	// the owner of the connection calls SetUp.
	linked bool
	nc     *nats.Conn     // set once, before the conn is handed out
	out    *outbox        // likewise; nil for one in this process
	stop   func()         // likewise; ends an attempt to connect; nil for one in this process
	wg     sync.WaitGroup // one per subscription whose handler may still run

	mu sync.Mutex
	// Guarded by mu.
	up      bool
	changed chan struct{}
	closed  bool
	subs    map[*subscription]struct{}
	pending map[*request]struct{}
}

type subscription struct {
	cancel context.CancelFunc
	sub    *nats.Subscription
	ended  atomic.Bool
}

// request is a Request or Send under way; lost is called when the connection is lost.
type request struct{ lost context.CancelCauseFunc }

// NC is the connection as the client library has it.
func (c *Conn) NC() *nats.Conn { return c.nc }

// InProcess says how to connect to a server in this process.
type InProcess struct {
	Server nats.InProcessConnProvider
	Name   string
	Token  string
	Sign   func(nonce []byte) ([]byte, error)
	// Linked: the peers are behind a leaf link, and Connected tells about that: the owner
	// of the connection calls SetUp.
	Linked bool
	Log    *slog.Logger
}

// OwnTimeout is how long the own server may take to greet its process's connections. Where
// thousands connect at the same time everything takes seconds, and a tier that cuts off its
// own connections then hears of nobody.
const OwnTimeout = time.Minute

// DialInProcess connects to a server in this process, with permission for everything.
func DialInProcess(p InProcess) (*Conn, error) {
	c, err := connect("", bus.Everything(), p.Linked, p.Log,
		nats.InProcessServer(p.Server),
		nats.Name(p.Name),
		nats.Timeout(OwnTimeout),
		nats.ReconnectWait(100*time.Millisecond),
		nats.UserJWT(func() (string, error) { return p.Token, nil }, p.Sign),
	)
	if err != nil {
		return nil, err
	}
	c.setSelf(c.nc.IsConnected())
	return c, nil
}

// connect makes a conn with the options given and those that all have.
func connect(url string, allow bus.Permissions, linked bool, log *slog.Logger, opts ...nats.Option) (*Conn, error) {
	c := &Conn{
		log: log, allow: allow, linked: linked, changed: make(chan struct{}),
		subs: map[*subscription]struct{}{}, pending: map[*request]struct{}{},
	}
	common := []nats.Option{
		nats.ReconnectBufSize(-1), // messages are at most once: nothing is kept for later
		nats.WriteBufferSize(writeBuffer),
		nats.PingInterval(PingInterval),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a token may become valid again; the delay bounds the attempts
		nats.IgnoreDiscoveredServers(),
		nats.ConnectHandler(func(*nats.Conn) { c.setSelf(true) }),
		nats.ReconnectHandler(func(*nats.Conn) { c.setSelf(true) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Debug("bus connection lost", "error", err)
			}
			c.setSelf(false)
		}),
		nats.ClosedHandler(func(*nats.Conn) { c.SetUp(false) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Warn("bus error", "error", err, "subject", subject)
		}),
	}
	nc, err := nats.Connect(url, append(common, opts...)...)
	if err != nil {
		return nil, err
	}
	c.nc = nc
	return c, nil
}

// setSelf is called in order by the client's callback goroutine.
func (c *Conn) setSelf(up bool) {
	if !c.linked {
		c.SetUp(up)
	}
}

// SetUp says whether the peers can be reached. It is for the owner of a linked connection.
func (c *Conn) SetUp(up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.up == up {
		return
	}
	c.up = up
	close(c.changed)
	c.changed = make(chan struct{})
	if !up {
		for r := range c.pending {
			r.lost(bus.ErrDisconnected)
		}
	}
}

// Connected implements Conn.
func (c *Conn) Connected() (bool, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.up, c.changed
}

// Publish implements Conn.
func (c *Conn) Publish(subject string, data []byte) error {
	if err := c.allow.CheckPublish(subject); err != nil {
		return err
	}
	return wrapConnError("publish to "+subject, c.nc.Publish(subject, data))
}

// Request implements Conn.
func (c *Conn) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	if err := c.allow.CheckPublish(subject); err != nil {
		return nil, err
	}
	ctx, done := c.whileConnected(ctx)
	defer done()
	m, err := c.nc.RequestWithContext(ctx, subject, data)
	if err != nil {
		return nil, wrapConnError("request "+subject, endedBy(ctx, err))
	}
	return m.Data, nil
}

// whileConnected returns a context that ends when the connection is lost, until done.
func (c *Conn) whileConnected(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	r := &request{lost: cancel}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending[r] = struct{}{}
	return ctx, func() {
		cancel(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pending, r)
	}
}

// endedBy says of an error whether the caller or the connection ended what ctx is of.
func endedBy(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) {
		return context.Cause(ctx)
	}
	return err
}

// wrapConnError gives the client's errors the names of this package.
func wrapConnError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrNoResponders):
		err = bus.ErrNoResponder
	case errors.Is(err, nats.ErrConnectionClosed):
		err = bus.ErrClosed
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrConnectionReconnecting):
		err = bus.ErrDisconnected
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Subscribe implements Conn.
func (c *Conn) Subscribe(subject string, h bus.Handler) (unsubscribe func(), err error) {
	if err := c.allow.CheckSubscribe(subject); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &subscription{cancel: cancel}
	if err := c.register(ctx, subject, h, s); err != nil {
		cancel()
		return nil, err
	}
	if c.nc.IsConnected() {
		if err := c.confirm(subject); err != nil {
			c.end(s)
			return nil, err
		}
	}
	return func() { c.end(s) }, nil
}

// register subscribes; ctx is the one that the handler gets.
func (c *Conn) register(ctx context.Context, subject string, h bus.Handler, s *subscription) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("subscribe to %s: %w", subject, bus.ErrClosed)
	}
	sub, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
		if !s.ended.Load() {
			h(ctx, bus.Msg{Subject: m.Subject, Data: m.Data, Respond: responder(m), OneWay: m.Reply == ""})
		}
	})
	if err != nil {
		return wrapConnError("subscribe to "+subject, err)
	}
	c.wg.Add(1)
	sub.SetClosedHandler(func(string) { c.wg.Done() })
	s.sub = sub
	c.subs[s] = struct{}{}
	return nil
}

func responder(m *nats.Msg) func([]byte) error {
	if m.Reply == "" {
		return bus.NoAnswerWanted
	}
	return func(data []byte) error { return wrapConnError("respond", m.Respond(data)) }
}

// confirm waits until the server has taken or refused a subscription. A refusal
// comes before the answer to the flush.
func (c *Conn) confirm(subject string) error {
	if c.nc.FlushTimeout(flushTimeout) != nil {
		// Not known yet: the subscription is sent again when the connection is
		// back, and a refusal then goes to the log.
		return nil //nolint:nilerr // as the comment says
	}
	if err := c.nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), `"`+subject+`"`) {
		return fmt.Errorf("subscribe to %q: %w", subject, bus.ErrForbidden)
	}
	return nil
}

// end stops a subscription without waiting for its handler.
func (c *Conn) end(s *subscription) {
	s.ended.Store(true)
	s.cancel()
	c.mu.Lock()
	_, there := c.subs[s]
	delete(c.subs, s)
	c.mu.Unlock()
	if there {
		// The only errors are that it or the connection is closed already.
		_ = s.sub.Unsubscribe()
	}
}

// Close implements Conn.
func (c *Conn) Close() {
	c.mu.Lock()
	c.closed = true
	subs := make([]*subscription, 0, len(c.subs))
	for s := range c.subs {
		subs = append(subs, s)
	}
	c.mu.Unlock()
	if c.stop != nil {
		c.stop()
	}
	for _, s := range subs {
		c.end(s)
	}
	c.wg.Wait()
	// What was published goes out before the connection ends.
	if c.nc.IsConnected() {
		_ = c.nc.FlushTimeout(time.Second)
	}
	c.nc.Close()
}
