package router

import (
	"context"
	"errors"
	"net"

	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/proxy/upstream"
)

// Await notes that a request waits for the endpoint, until awaited.
func (e *Endpoint) Await(w *Waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting == nil {
		e.waiting = map[*Waiter]struct{}{}
	}
	e.waiting[w] = struct{}{}
}

// Awaited ends Await.
func (e *Endpoint) Awaited(w *Waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.waiting, w)
}

// Pool keeps the streams to a port of an endpoint of another worker; nil where none is
// to be kept.
func (e *Endpoint) Pool(port string) *http1.Pool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.retired || e.parked {
		return nil
	}
	p := e.pools[port]
	if p == nil {
		p = upstream.NewPool()
		if e.pools == nil {
			e.pools = map[string]*http1.Pool{}
		}
		e.pools[port] = p
	}
	return p
}

// Transport returns the connections that are kept to a port of an endpoint of another
// worker. For one that is about to end none are kept.
func (r *Services) Transport(e *Endpoint, port string, h2 bool) *upstream.Transport {
	e.mu.Lock()
	defer e.mu.Unlock()
	ending := e.retired || e.parked
	key := upstream.Key{Port: port, H2: h2}
	if t := e.transports[key]; t != nil && !ending {
		return t
	}
	t := upstream.NewTransport(func(ctx context.Context) (*upstream.Conn, error) {
		wanted, ok := ctx.Value(upstream.WantedBy{}).(context.Context)
		if !ok {
			wanted = ctx
		}
		conn, release, err := r.OpenStream(ctx, wanted, e, port)
		if err != nil {
			return nil, err
		}
		return upstream.NewConn(conn, release), nil
	}, h2, ending, r.Opts.Log)
	if ending {
		return t
	}
	if e.transports == nil {
		e.transports = map[upstream.Key]*upstream.Transport{}
	}
	e.transports[key] = t
	return t
}

// MaxOpening streams for requests are opened to one endpoint at a time: each costs both
// workers a handshake. A client that takes its requests back at once, a thousand of them
// over one connection, would otherwise keep both busy with handshakes for nobody until
// those of others end by their time limit.
const MaxOpening = 16

// ErrNotWanted is why a stream was not opened.
var ErrNotWanted = errors.New("the request that it was for was taken back")

// OpenStream is dial for requests. It waits for its slots, and when that comes and
// wanted has ended, nothing is opened.
func (r *Services) OpenStream(ctx, wanted context.Context, e *Endpoint, port string) (net.Conn, func(), error) {
	slots := e.Slots()
	select {
	case slots <- struct{}{}:
	case <-wanted.Done():
		return nil, nil, ErrNotWanted
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	defer func() { <-slots }()
	if wanted.Err() != nil {
		return nil, nil, ErrNotWanted
	}
	return r.Dial(ctx, e, port, forRequests)
}

// Slots has a place for each stream that is being opened.
func (e *Endpoint) Slots() chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opening == nil {
		e.opening = make(chan struct{}, MaxOpening)
	}
	return e.opening
}

// retire notes that the endpoint is in no route any more, for good.
func (e *Endpoint) retire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.retired = true
	e.closeIdleLocked()
}

// park notes whether the endpoint is one of this worker that takes nothing new.
func (e *Endpoint) park(parked bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.parked = parked; parked {
		e.closeIdleLocked()
	}
}

// Settle is called after each request: one that began when the endpoint was
// about to be retired or parked has made its transport keep connections again.
func (e *Endpoint) Settle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.retired || e.parked {
		e.closeIdleLocked()
	}
}

// closeIdleLocked closes the connections to the endpoint that no request uses,
// and has the others closed after their request.
func (e *Endpoint) closeIdleLocked() {
	for _, t := range e.transports {
		t.CloseIdleConnections()
	}
	for _, p := range e.pools {
		p.CloseIdle()
	}
}
