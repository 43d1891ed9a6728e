package fastpath

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/proxy/call"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/proxy/relay"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/proxy/upstream"
)

// wait is what a request of the fast driver waits with for another worker.
type wait struct {
	deadline http1.Instant // of the head of the answer; 0 none
	waiter   *router.Waiter
	endpoint *router.Endpoint
	began    http1.Instant
	// back is why the request is to be taken back; news wakes whoever waits for a
	// connection then, and up is the connection it was sent over.
	back  atomic.Pointer[error]
	news  chan struct{}
	up    atomic.Pointer[http1.Conn]
	taken func(error) // Conn.taken, made once
}

// taken takes the request back, from any goroutine: see router.Waiter.
func (f *Conn) taken(why error) {
	f.wait.back.Store(&why)
	netconn.Wake(f.wait.news)
	if up := f.wait.up.Load(); up != nil {
		up.Poke()
	}
}

// Waits implements http1.Waiter.
func (f *Conn) Waits(now http1.Instant) error {
	w := &f.wait
	if w.deadline != 0 && now >= w.deadline {
		return failure.ErrLate
	}
	if w.waiter == nil {
		return nil // its engine looks after it
	}
	if why := w.back.Load(); why != nil {
		return *why
	}
	if now.Sub(w.began) >= router.LookAfter {
		f.r.Look(w.endpoint)
	}
	return nil
}

// askThere asks an instance of another worker, as package forward does.
func (f *Conn) askThere(ctx context.Context, x *http1.Exchange, e *router.Endpoint, more bool) (moved bool, _ error) {
	w := &f.wait
	if w.news == nil {
		w.news = make(chan struct{}, 1)
	}
	select {
	case <-w.news: // of the last one
	default:
	}
	w.back.Store(nil)
	w.waiter = &router.Waiter{Repeat: f.call.Repeat, Elsewhere: more && x.Repeatable()}
	if w.waiter.Repeat || w.waiter.Elsewhere {
		w.waiter.Abandon = w.taken
	}
	w.endpoint, w.began, x.Hold = e, x.Began, true
	e.Await(w.waiter)
	var err error
	for try := range upstream.MaxIdleTries + 1 {
		if err = f.stream(ctx, x, e, try); err != nil {
			break
		}
		w.up.Store(f.up)
		err = f.sent(x)
		w.up.Store(nil)
		if !errors.As(err, new(*failure.UnsentError)) {
			break
		}
		w.waiter.State.Store(router.WaitsForConn) // nobody changes it while it is HasConn
	}
	state := w.waiter.State.Load()
	e.Awaited(w.waiter)
	w.waiter = nil
	if err != nil {
		e.Settle()
		switch {
		case errors.Is(err, http1.ErrClient) || errors.Is(err, failure.ErrLate) || ctx.Err() != nil:
			return false, err
		case state == router.WaitCanceled && x.Repeatable() && errors.Is(err, failure.ErrSlowWorker):
			f.call.Picker.Again(e)
			return true, nil // no connection had taken it
		case errors.Is(err, failure.ErrAbandoned):
			e.Failures.Add(1)
			return false, &failure.OpenError{Blame: failure.BlameSelf, Target: e.Instance,
				Err: failure.ErrAbandoned} // nothing but time was lost
		}
		return false, err
	}
	if v := x.Response.Get(lowRefused); v != nil && x.Response.Status >= 500 {
		return false, f.refused(x, e, string(v))
	}
	h := call.TakeHop(&f.report)
	if h.Waited > 0 || h.Bps > 0 {
		f.call.Uploaded(h, x.Request.Length, x.Uploaded(router.SentMoment).Waited)
	}
	f.call.Downloaded(h, f.up.Last)
	f.up.Last = http1.Flow{}
	return false, nil
}

// refused is what another router says instead of an answer.
func (f *Conn) refused(x *http1.Exchange, e *router.Endpoint, why string) error {
	later := httpmsg.ParseRetryAfter(string(x.Response.Get(lowRetryAfter))) // before Take, which reads over it
	detail, again := x.Take(f.up, relay.SmallBuffer)
	if again {
		f.keep()
	}
	err := errors.New(strings.ToValidUTF8(string(detail[:min(len(detail), 512)]), "?"))
	switch why {
	case failure.RefusedBroken:
		return &failure.BrokenError{Err: err}
	case failure.RefusedConnect:
		oe := &failure.OpenError{Blame: failure.BlameEndpoint, Target: e.Instance, Err: err}
		f.r.Judge(e, oe)
		return oe
	}
	return &failure.RefusedError{Why: why, Err: err, Again: later}
}

// stream sets f.up to a stream to the worker of an endpoint.
func (f *Conn) stream(ctx context.Context, x *http1.Exchange, e *router.Endpoint, try int) error {
	port, w := f.call.Port, f.wait.waiter
	f.pool = e.Pool(port)
	if f.up = f.kept(x, try); f.up != nil {
		w.State.CompareAndSwap(router.WaitsForConn, router.HasConn)
		return nil
	}
	// It is opened in the background, and stays if the request is taken back: it then serves the
	// next one, and shows that the worker is there.
	type opened struct {
		up  *http1.Conn
		err error
	}
	result, pool := make(chan opened, 1), f.pool
	wanted, done := context.WithCancel(ctx)
	defer done()
	ok := f.d.Spawn(func(ctx context.Context) {
		conn, release, err := f.r.OpenStream(ctx, wanted, e, port)
		if err != nil {
			result <- opened{err: err}
			return
		}
		up := http1.NewConn(conn, release)
		switch {
		case w.State.CompareAndSwap(router.WaitsForConn, router.HasConn):
			result <- opened{up: up}
		case pool != nil:
			pool.Put(up, http1.Now())
			e.Settle()
		default:
			_ = up.Close()
		}
	})
	if !ok {
		return failure.ErrClosed
	}
	f.gone = leaving{Context: ctx, conn: f.conn}
	defer f.gone.stop()
	left := f.gone.Done()
	var late <-chan time.Time
	if d := f.wait.deadline; d != 0 {
		t := time.NewTimer(d.Sub(http1.Now()))
		defer t.Stop()
		late = t.C
	}
	for {
		select {
		case o := <-result:
			f.up = o.up
			return o.err
		case <-f.wait.news:
			if why := f.wait.back.Load(); why != nil && w.Withdraw() {
				return *why
			}
		case <-late:
			if w.Withdraw() {
				return failure.ErrLate
			}
		case <-left:
			if w.Withdraw() {
				return http1.ErrClient
			}
			left = nil // its connection is about to come
		}
	}
}
