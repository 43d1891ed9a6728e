package proxy

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/proxy/netconn"
)

// fastWait is what a request of the fast driver waits with for another worker.
type fastWait struct {
	deadline http1.Instant // of the head of the answer; 0 none
	waiter   *waiter
	endpoint *endpoint
	began    http1.Instant
	// back is why the request is to be taken back; news wakes whoever waits for a
	// connection then, and up is the connection it was sent over.
	back  atomic.Pointer[error]
	news  chan struct{}
	up    atomic.Pointer[http1.Conn]
	taken func(error) // fast.taken, made once
}

// taken takes the request back, from any goroutine: see waiter.abandon.
func (f *fast) taken(why error) {
	f.wait.back.Store(&why)
	netconn.Wake(f.wait.news)
	if up := f.wait.up.Load(); up != nil {
		up.Poke()
	}
}

// Waits implements http1.Waiter.
func (f *fast) Waits(now http1.Instant) error {
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
	if now.Sub(w.began) >= lookAfter {
		f.r.look(w.endpoint)
	}
	return nil
}

// askThere asks an instance of another worker: exchange.askThere.
func (f *fast) askThere(ctx context.Context, x *http1.Exchange, e *endpoint, more bool) (moved bool, _ error) {
	w := &f.wait
	if w.news == nil {
		w.news = make(chan struct{}, 1)
	}
	select {
	case <-w.news: // of the last one
	default:
	}
	w.back.Store(nil)
	w.waiter = &waiter{repeat: f.call.repeat, elsewhere: more && x.Repeatable()}
	if w.waiter.repeat || w.waiter.elsewhere {
		w.waiter.abandon = w.taken
	}
	w.endpoint, w.began, x.Hold = e, x.Began, true
	e.await(w.waiter)
	var err error
	for try := range maxKept + 1 {
		if err = f.stream(ctx, x, e, try); err != nil {
			break
		}
		w.up.Store(f.up)
		err = f.sent(x)
		w.up.Store(nil)
		if !errors.As(err, new(*failure.UnsentError)) {
			break
		}
		w.waiter.state.Store(waitsForConn) // nobody changes it while it is hasConn
	}
	state := w.waiter.state.Load()
	e.awaited(w.waiter)
	w.waiter = nil
	if err != nil {
		e.settle()
		switch {
		case errors.Is(err, http1.ErrClient) || errors.Is(err, failure.ErrLate) || ctx.Err() != nil:
			return false, err
		case state == waitCanceled && x.Repeatable() && errors.Is(err, failure.ErrSlowWorker):
			f.call.picker.again(e)
			return true, nil // no connection had taken it
		case errors.Is(err, failure.ErrAbandoned):
			e.failures.Add(1)
			return false, &failure.OpenError{Blame: failure.BlameSelf, Target: e.Instance, Err: failure.ErrAbandoned} // nothing but time was lost
		}
		return false, err
	}
	if v := x.Response.Get(lowRefused); v != nil && x.Response.Status >= 500 {
		return false, f.refused(x, e, string(v))
	}
	h := takeHop(&f.report)
	if h.waited > 0 || h.bps > 0 {
		f.call.uploaded(h, x.Request.Length, x.Uploaded(sentMoment).Waited)
	}
	f.call.downloaded(h, f.up.Last)
	f.up.Last = http1.Flow{}
	return false, nil
}

// refused is what another router says instead of an answer: exchange.refusal.
func (f *fast) refused(x *http1.Exchange, e *endpoint, why string) error {
	later := httpmsg.ParseRetryAfter(string(x.Response.Get(lowRetryAfter))) // before Take, which reads over it
	detail, again := x.Take(f.up, netconn.SmallBuffer)
	if again {
		f.keep()
	}
	err := errors.New(strings.ToValidUTF8(string(detail[:min(len(detail), 512)]), "?"))
	switch why {
	case failure.RefusedBroken:
		return &failure.BrokenError{Err: err}
	case failure.RefusedConnect:
		oe := &failure.OpenError{Blame: failure.BlameEndpoint, Target: e.Instance, Err: err}
		f.r.judge(e, oe)
		return oe
	}
	return &failure.RefusedError{Why: why, Err: err, Again: later}
}

// stream sets f.up to a stream to the worker of an endpoint.
func (f *fast) stream(ctx context.Context, x *http1.Exchange, e *endpoint, try int) error {
	port, w := f.call.port, f.wait.waiter
	f.pool = e.pool(port)
	if f.up = f.kept(x, try); f.up != nil {
		w.state.CompareAndSwap(waitsForConn, hasConn)
		return nil
	}
	// It is opened beside, and goes on where the request is taken back: it is then for
	// the next one, and says whether the worker is there.
	type opened struct {
		up  *http1.Conn
		err error
	}
	result, pool := make(chan opened, 1), f.pool
	wanted, done := context.WithCancel(ctx)
	defer done()
	ok := f.d.Spawn(func(ctx context.Context) {
		conn, release, err := f.r.openStream(ctx, wanted, e, port)
		if err != nil {
			result <- opened{err: err}
			return
		}
		up := http1.NewConn(conn, release)
		switch {
		case w.state.CompareAndSwap(waitsForConn, hasConn):
			result <- opened{up: up}
		case pool != nil:
			pool.Put(up, http1.Now())
			e.settle()
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
			if why := f.wait.back.Load(); why != nil && w.withdraw() {
				return *why
			}
		case <-late:
			if w.withdraw() {
				return failure.ErrLate
			}
		case <-left:
			if w.withdraw() {
				return http1.ErrClient
			}
			left = nil // its connection is about to come
		}
	}
}
