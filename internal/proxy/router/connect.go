package router

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/data"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/proxy/relay"
	"github.com/verge-edge/verge/internal/proxy/upstream"
)

// maxTries of endpoints for one connection.
const maxTries = 64

// purpose of a connection to an endpoint.
type purpose int

// What a connection to an endpoint is for.
const (
	forBytes    purpose = iota // it carries what a client sends
	forRequests                // of another worker: its router looks at each request
	ForProbe                   // it is closed at once; over the data path the other router makes it
)

// connect opens a connection to one endpoint, without judging the endpoint. The
// caller calls release once, after it closed the connection; with an error both
// are nil.
func (r *Services) connect(ctx context.Context, e *Endpoint, port string, what purpose) (net.Conn, func(), error) {
	udp := e.service.isUDP(port)
	if e.Local {
		return r.Local.Connect(ctx, e.Instance, port, udp, what == ForProbe)
	}
	conn, err := r.dialer.Open(ctx, e.Endpoint, data.Preamble{Instance: e.Instance, Port: port, Probe: what == ForProbe, HTTP: what == forRequests, Datagrams: udp})
	if err != nil {
		return nil, nil, err
	}
	e.Reached.Store(counters.Stamp(time.Now()))
	if udp {
		return &relay.DatagramStream{Conn: conn}, r.dialer.Paths.Add(conn, e.Address), nil
	}
	return conn, r.dialer.Paths.Add(conn, e.Address), nil
}

// Dial opens a connection to one endpoint and draws the consequences for its
// health.
func (r *Services) Dial(ctx context.Context, e *Endpoint, port string, what purpose) (net.Conn, func(), error) {
	wasEjected := e.service.isEjected(e)
	conn, release, err := r.timed(ctx, e, port, what)
	if err == nil {
		e.connections.Add(1)
		if what == forBytes {
			e.service.used(e)
		}
		if wasEjected {
			r.readmit(e)
		}
		return conn, release, nil
	}
	e.Failures.Add(1)
	r.Judge(e, err)
	return nil, nil, err
}

// timed is connect, and looks at the time that it takes.
func (r *Services) timed(ctx context.Context, e *Endpoint, port string, what purpose) (net.Conn, func(), error) {
	if e.Local {
		return r.connect(ctx, e, port, what)
	}
	defer r.hedge(e)()
	begin := time.Now()
	conn, release, err := r.connect(ctx, e, port, what)
	if err == nil {
		e.Opened(time.Since(begin))
	}
	return conn, release, err
}

// Judge ejects what a failed try speaks against.
func (r *Services) Judge(e *Endpoint, err error) {
	var oe *failure.OpenError
	if !errors.As(err, &oe) || failure.OutOfResources(err) {
		return
	}
	switch oe.Blame {
	case failure.BlameSelf:
	case failure.BlameEndpoint:
		r.Eject(e, oe.Err.Error())
	case failure.BlameWorker:
		// e may be of a table that was replaced meanwhile.
		all := append(slices.Clip(r.table.Load().byAddress[e.Address]), e)
		var late net.Error // of a read, which is os.ErrDeadlineExceeded, and of connecting, which is not
		if errors.As(err, &late) && late.Timeout() && reachedSince(all, oe.Began) {
			r.Opts.Log.Debug("a stream was not opened in time", "worker", e.Worker, "why", oe.Err)
			return
		}
		r.lose(all, oe.Err.Error())
	}
}

// reachedSince says whether a stream to one of these endpoints, which have an address in
// common, was opened after began, or one of them answered. What took too long then is no sign that their worker is
// gone: it, or this one, has much to do.
func reachedSince(list []*Endpoint, began time.Time) bool {
	return slices.ContainsFunc(list, func(e *Endpoint) bool { return e.Reached.Load() > counters.Stamp(began) })
}

// lose ejects endpoints whose worker cannot be reached, and takes back what waits
// for them.
func (r *Services) lose(list []*Endpoint, why string) {
	for _, e := range list {
		e.Lost.Store(true)
		r.Eject(e, why)
	}
	abandon(list)
}

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
