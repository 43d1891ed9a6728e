package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/verge-edge/verge/internal/proxy/h2client"
)

// upstreamIdle is how long a connection to an instance is kept for the next
// request.
const upstreamIdle = 60 * time.Second

// maxResponseHeader bounds the head of an answer.
const maxResponseHeader = 256 << 10

// transport has kept connections to a port of an instance: over HTTP/1.1, one request
// after the other, or over HTTP/2 many at a time.
type transport struct {
	h1 *http.Transport
	h2 *h2client.Client // nil: h1 is not
}

// CloseIdleConnections closes those that no request uses.
func (t *transport) CloseIdleConnections() {
	if t.h2 != nil {
		t.h2.CloseIdleConnections()
		return
	}
	t.h1.CloseIdleConnections()
}

// newTransport keeps the connections that dial opens, or opens one for each request
// (once).
func newTransport(dial func(context.Context) (*keptConn, error), h2, once bool, log *slog.Logger) *transport {
	if h2 {
		return &transport{h2: h2client.New(h2client.Options{
			Dial: func(wanted context.Context) (net.Conn, error) {
				c, err := dial(context.WithValue(context.Background(), wantedBy{}, wanted))
				if err != nil {
					return nil, err
				}
				return &c.HeldConn, nil // there, something to read means nothing
			},
			Idle: upstreamIdle, MaxHead: maxResponseHeader, Once: once, Log: log,
		})}
	}
	return &transport{h1: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		DisableKeepAlives:      once,
		DisableCompression:     true, // bodies pass as they are
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        upstreamIdle,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxResponseHeader,
	}}
}

// transport returns the connections that are kept to a port of an endpoint of another
// worker. For one that is about to end none are kept.
func (r *services) transport(e *endpoint, port string, h2 bool) *transport {
	e.mu.Lock()
	defer e.mu.Unlock()
	ending := e.retired || e.parked
	key := transportKey{port: port, h2: h2}
	if t := e.transports[key]; t != nil && !ending {
		return t
	}
	t := newTransport(func(ctx context.Context) (*keptConn, error) {
		wanted, ok := ctx.Value(wantedBy{}).(context.Context)
		if !ok {
			wanted = ctx
		}
		conn, release, err := r.openStream(ctx, wanted, e, port)
		if err != nil {
			return nil, err
		}
		return newKeptConn(conn, release), nil
	}, h2, ending, r.opts.Log)
	if ending {
		return t
	}
	if e.transports == nil {
		e.transports = map[transportKey]*transport{}
	}
	e.transports[key] = t
	return t
}

// maxOpening streams for requests are opened to one endpoint at a time: each costs both
// workers a handshake. A client that takes its requests back at once, a thousand of them
// over one connection, would otherwise keep both busy with handshakes for nobody until
// those of others end by their time limit.
const maxOpening = 16

// wantedBy is where the context of a dial has that of the request which it is for; a
// transport dials on when that ends.
type wantedBy struct{}

// errNotWanted is why a stream was not opened.
var errNotWanted = errors.New("the request that it was for was taken back")

// openStream is dial for requests. It waits for its slots, and when that comes and
// wanted has ended, nothing is opened.
func (r *services) openStream(ctx, wanted context.Context, e *endpoint, port string) (net.Conn, func(), error) {
	slots := e.slots()
	select {
	case slots <- struct{}{}:
	case <-wanted.Done():
		return nil, nil, errNotWanted
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	defer func() { <-slots }()
	if wanted.Err() != nil {
		return nil, nil, errNotWanted
	}
	return r.dial(ctx, e, port, forRequests)
}

// slots has a place for each stream that is being opened.
func (e *endpoint) slots() chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opening == nil {
		e.opening = make(chan struct{}, maxOpening)
	}
	return e.opening
}

// transportKey is what a transport to an endpoint is for.
type transportKey struct {
	port string
	h2   bool
}

// retire notes that the endpoint is in no route any more, for good.
func (e *endpoint) retire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.retired = true
	e.closeIdleLocked()
}

// park notes whether the endpoint is one of this worker that takes nothing new.
func (e *endpoint) park(parked bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.parked = parked; parked {
		e.closeIdleLocked()
	}
}

// settle is called after each request: one that began when the endpoint was
// about to be retired or parked has made its transport keep connections again.
func (e *endpoint) settle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.retired || e.parked {
		e.closeIdleLocked()
	}
}

// closeIdleLocked closes the connections to the endpoint that no request uses,
// and has the others closed after their request.
func (e *endpoint) closeIdleLocked() {
	for _, t := range e.transports {
		t.CloseIdleConnections()
	}
	for _, p := range e.pools {
		p.CloseIdle()
	}
}
