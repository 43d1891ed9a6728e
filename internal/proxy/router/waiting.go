package router

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/failure"
)

// A worker that falls silent takes the requests with it that wait for an answer
// over kept connections: nothing tells this side, for as long as TCP goes on
// trying. So a request that has waited for a while has its endpoint looked at, and
// when a worker is not reached, what waits for it is asked elsewhere, if it may be
// asked twice.
const (
	// LookAfter is how long a request waits for the head of its response before
	// the endpoint is looked at. Longer than most answers take. Slow ones cost one
	// probe in lookEvery, or in lookAfter where their worker answers seldom: who answered
	// after the last look, and then nobody for lookAfter, may have fallen silent since.
	LookAfter = time.Second
	lookEvery = 5 * time.Second
)

// Waiter is a request that waits for the head of its response.
type Waiter struct {
	Abandon context.CancelCauseFunc // nil where it may not be taken back
	Repeat  bool                    // it may be asked again though it was sent
	// Elsewhere: there is another endpoint, which it may be asked at as long as it
	// was not sent.
	Elsewhere bool
	State     atomic.Int32
	look      *time.Timer
}

// States of a waiter. Only one that waits for a connection can be canceled, and
// one that was canceled never gets one.
const (
	WaitsForConn int32 = iota
	HasConn
	WaitCanceled
)

// Withdraw says that the request waits for a connection no longer; false: it has just
// got one. It is true also where another has withdrawn it before, for its own reason:
// then no connection comes, and who waited on would wait for ever.
func (w *Waiter) Withdraw() bool {
	return w.State.CompareAndSwap(WaitsForConn, WaitCanceled) || w.State.Load() == WaitCanceled
}

// Wait notes that a request with this context is about to wait for an endpoint of
// another worker. repeat: it may be asked again elsewhere after it was sent, and
// elsewhere: before that. The returned context is the one to send it with, and done is
// called when it waits no longer. It lasts until that of the request ends, since the
// body of the answer is read under it.
func (r *Services) Wait(ctx context.Context, e *Endpoint, repeat, elsewhere bool) (_ context.Context, w *Waiter, done func()) {
	w = &Waiter{Repeat: repeat, Elsewhere: elsewhere}
	if repeat || elsewhere {
		ctx, w.Abandon = context.WithCancelCause(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting == nil {
		e.waiting = map[*Waiter]struct{}{}
	}
	e.waiting[w] = struct{}{}
	w.look = time.AfterFunc(LookAfter, func() { r.lookFor(w, e) })
	return ctx, w, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		w.look.Stop()
		delete(e.waiting, w)
	}
}

// lookFor looks at the endpoint that a request waits for, each lookAfter.
func (r *Services) lookFor(w *Waiter, e *Endpoint) {
	r.Look(e)
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, waits := e.waiting[w]; waits {
		w.look.Reset(LookAfter)
	}
}

// Look makes sure that an endpoint can still be reached, where that is not known by what
// has just come from its worker.
func (r *Services) Look(e *Endpoint) {
	if e.service.isEjected(e) {
		return // it is known, or being found out
	}
	now := time.Now()
	behind := append(slices.Clip(r.table.Load().byAddress[e.Address]), e)
	var life int64
	for _, x := range behind {
		life = max(life, x.Reached.Load())
	}
	e.mu.Lock()
	due := !e.looking && !e.retired && lookDue(now, e.looked, counters.Stamped(life))
	if due {
		e.looked, e.looking = now, true
	}
	e.mu.Unlock()
	if !due {
		return
	}
	looked := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.looked, e.looking = time.Now(), false
	}
	if !r.Opts.Spawn(func(ctx context.Context) {
		defer looked()
		if err := r.probeOne(ctx, e); err != nil {
			r.Judge(e, err)
		}
	}) {
		looked()
	}
}

// lookDue says whether an endpoint that was looked at before (zero: never) is looked at
// now; life is when its worker answered last.
func lookDue(now, looked, life time.Time) bool {
	since := now.Sub(looked)
	return since >= lookEvery || since >= LookAfter && life.After(looked) && now.Sub(life) >= LookAfter
}

// abandon takes back what waits for endpoints that cannot be reached, and drops
// the connections that were kept to them.
func abandon(list []*Endpoint) {
	for _, e := range list {
		e.mu.Lock()
		e.closeIdleLocked()
		for w := range e.waiting {
			if w.Repeat {
				w.Abandon(failure.ErrAbandoned)
			}
		}
		e.mu.Unlock()
	}
}
