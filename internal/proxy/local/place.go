package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/h2guard"
	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/proxy/queue"
	"github.com/verge-edge/verge/internal/proxy/sockets"
	"github.com/verge-edge/verge/internal/proxy/upstream"
	"github.com/verge-edge/verge/internal/wire"
)

// A request waits for an instance that sleeps wakeTimeout at most, and a moment less
// than its time: a tenth of it, wakeMargin at most. So it is told what is the matter,
// here and on the way from another worker, and not that its time is over.
const (
	wakeTimeout = 60 * time.Second
	wakeMargin  = 250 * time.Millisecond
)

// wakeBefore is until when a request with this deadline waits for an instance that
// sleeps.
func wakeBefore(now, deadline time.Time) time.Time {
	most := now.Add(wakeTimeout)
	if deadline.IsZero() {
		return most
	}
	until := deadline.Add(-min(deadline.Sub(now)/10, wakeMargin))
	if until.After(most) {
		return most
	}
	return until
}

// refusal of a request by Local.Target or its queue; any other error is that of the
// client, who left.
func refusal(id wire.InstanceID, err error) error {
	var why string
	var se *StartError
	switch {
	case errors.As(err, &se) && se.Full:
		return &failure.RefusedError{Why: failure.RefusedRoom, Err: se, Again: se.Again}
	case se != nil:
		return &failure.RefusedError{Why: failure.RefusedStart, Err: se, Again: se.Again}
	case errors.Is(err, queue.ErrFull):
		why = failure.RefusedFull
	case errors.Is(err, queue.ErrLate):
		why = failure.RefusedLate
	case errors.Is(err, ErrDraining):
		why = failure.RefusedDraining
	case errors.Is(err, ErrNoInstance):
		why = failure.RefusedGone
	case errors.Is(err, ErrNotReady), errors.Is(err, ErrAsleep):
		why = failure.RefusedNotReady
	default:
		return err
	}
	return &failure.RefusedError{Why: why, Err: fmt.Errorf("%s: %w", id, err)}
}

// Endpoint is an instance of this worker as requests meet it: the queue in front of it and
// the connections to it.
type Endpoint struct {
	id    wire.InstanceID
	port  string // one of it
	all   *Endpoints
	Queue *queue.Queue
	seen  atomic.Int64 // when it answered or took a connection last, a stamp
	// answered and failed are the requests that Answers has not told yet, see outcome.
	answered, failed atomic.Uint64

	mu   sync.Mutex // guards below
	to   map[upstream.Key]*endpointPort
	kept map[string]*keptTo // by port
}

// endpointPort is a port of an instance.
type endpointPort struct {
	addr      string
	transport *upstream.Transport
}

// Endpoints are those of this worker.
type Endpoints struct {
	Opts     Options
	inflight InFlight

	mu sync.Mutex // guards below
	by map[wire.InstanceID]*Endpoint
}

// Options are what the instances of this worker are asked and limited by.
type Options struct {
	Local  Local
	Dialer sockets.Dialer
	Log    *slog.Logger
	// Limits of the queue of an instance. counted: how it answers is to be counted.
	Limits func(id wire.InstanceID) (_ queue.Limits, counted bool)
	// Asked receives when the first answer since Answers was called has been counted.
	Asked chan<- struct{}
	// HeaderTimeout is how long a header block of HTTP/2 of an instance may take.
	HeaderTimeout time.Duration
}

// New knows no instance yet.
func New(opts Options) *Endpoints { return &Endpoints{Opts: opts, inflight: NewInFlight()} }

// of is the endpoint of an instance, made with its first request.
func (s *Endpoints) of(id wire.InstanceID, port string, limits queue.Limits) *Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.by[id]
	if x == nil {
		x = &Endpoint{id: id, port: port, all: s, Queue: queue.New(limits, time.Now()),
			to: map[upstream.Key]*endpointPort{}}
		if s.by == nil {
			s.by = map[wire.InstanceID]*Endpoint{}
		}
		s.by[id] = x
	}
	return x
}

// Get is the one of an instance, nil where no request has come for it.
func (s *Endpoints) Get(id wire.InstanceID) *Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[id]
}

// All are those to which requests have come.
func (s *Endpoints) All() []*Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Endpoint, 0, len(s.by))
	for _, x := range s.by {
		out = append(out, x)
	}
	return out
}

func (s *Endpoints) drop(id wire.InstanceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, id)
}

// Place is what a request has at an instance of this worker while it runs there.
type Place struct {
	Endpoint *Endpoint
	Addr     string // where the port of the instance listens
	Ticket   queue.Ticket
	held     held // the instance is used by it
	// Counted: who routes wants to know how it is answered.
	Counted bool
}

// Enter waits until a request may be sent to a port of an instance of this worker, at most until
// deadline (zero: as long as ctx lasts). The request counts as in flight from the first moment,
// so that an engine that sets "draining" and then waits misses none; requests that already wait
// are let through. Without an error call p.leave once.
func (s *Endpoints) Enter(ctx context.Context, p *Place, id wire.InstanceID, port string, deadline time.Time) error {
	limits, counted := s.Opts.Limits(id)
	held := s.inflight.begin(id, false)
	in := false
	defer func() {
		if !in {
			held.end(time.Now())
		}
	}()
	addr, err := s.Opts.Local.Target(id, port)
	asleep := errors.Is(err, ErrAsleep)
	if err != nil && !asleep {
		return refusal(id, err)
	}
	x := s.of(id, port, limits)
	x.Queue.SetLimits(limits)
	timeout := time.Duration(0)
	if asleep {
		x.Queue.Close()
		now := time.Now()
		deadline = wakeBefore(now, deadline)
		timeout = deadline.Sub(now)
		s.Opts.Local.Wake(id)
		// It may have been ready before the queue was closed.
		s.settle(x)
	}
	p.Endpoint, p.held, p.Counted = x, held, counted
	var queued func()
	if asleep {
		queued = func() { s.settle(x) } // or have failed before this request was one of those who wait
	}
	if err := x.Queue.EnterThen(ctx, &p.Ticket, deadline, queued); err != nil {
		if asleep && errors.Is(err, queue.ErrLate) && x.Queue.State().Closed {
			err = &StartError{Why: "it did not become ready within " + timeout.Round(time.Millisecond).String()}
		}
		return refusal(id, err)
	}
	if asleep {
		if addr, err = s.Opts.Local.Target(id, port); err != nil {
			p.Ticket.Done(false)
			return refusal(id, err)
		}
	}
	p.Addr, in = addr, true
	return nil
}

// Leave ends what enter began. Answered: the instance gave a whole answer.
func (p *Place) Leave(answered bool) {
	now := time.Now()
	if answered {
		p.Endpoint.seen.Store(counters.Stamp(now))
	}
	p.Ticket.DoneAt(now, answered)
	p.held.end(now)
}

// Rest gives the place in the queue back while the instance is still used: what is
// open without end is no work.
func (p *Place) Rest() { p.Ticket.Done(false) }

// Report is what the queue has measured.
func (p *Place) Report() scale.Report { return p.Ticket.Report() }

// settle opens or fails the queue if it was closed when its instance slept.
func (s *Endpoints) settle(x *Endpoint) {
	if !x.Queue.State().Closed {
		return
	}
	switch _, err := s.Opts.Local.Target(x.id, x.port); {
	case err == nil:
		x.Queue.Open()
	case !errors.Is(err, ErrAsleep):
		x.Queue.Fail(err)
	}
}

// SettleAll looks at all queues after instances of this worker have changed.
func (s *Endpoints) SettleAll() {
	for _, x := range s.All() {
		s.settle(x)
		_, err := s.Opts.Local.Target(x.id, x.port)
		if err == nil || errors.Is(err, ErrAsleep) {
			continue
		}
		x.CloseIdle()
		if st := x.Queue.State(); errors.Is(err, ErrNoInstance) && st.Waiting == 0 && st.Running == 0 {
			s.drop(x.id)
		}
	}
}

// Transport for requests to a port of the instance, which listens at addr.
func (x *Endpoint) Transport(port, addr string, h2 bool) *upstream.Transport {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := upstream.Key{Port: port, H2: h2}
	if p := x.to[key]; p != nil && p.addr == addr {
		return p.transport
	} else if p != nil {
		p.transport.CloseIdleConnections()
	}
	t := upstream.NewTransport(func(ctx context.Context) (*upstream.Conn, error) {
		conn, err := x.Dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		if h2 {
			conn = h2guard.Server(conn, x.all.Opts.HeaderTimeout)
		}
		return upstream.NewConn(conn, func() {}), nil
	}, h2, false, x.all.Opts.Log)
	x.to[key] = &endpointPort{addr, t}
	return t
}

// CloseIdle closes the kept connections that no request uses.
func (x *Endpoint) CloseIdle() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.to {
		p.transport.CloseIdleConnections()
	}
	for _, k := range x.kept {
		k.pool.CloseIdle()
	}
}

// Pool keeps the connections to a port of the instance, which listens at addr.
func (x *Endpoint) Pool(port, addr string) *http1.Pool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if k := x.kept[port]; k != nil && k.addr == addr {
		return k.pool
	} else if k != nil {
		k.pool.Close()
	}
	if x.kept == nil {
		x.kept = map[string]*keptTo{}
	}
	p := upstream.NewPool()
	x.kept[port] = &keptTo{addr, p}
	return p
}

// keptTo are the connections to an address.
type keptTo struct {
	addr string
	pool *http1.Pool
}
