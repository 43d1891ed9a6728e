package proxy

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
	// lookAfter is how long a request waits for the head of its response before
	// the endpoint is looked at. Longer than most answers take. Slow ones cost one
	// probe in lookEvery, or in lookAfter where their worker answers seldom: who answered
	// after the last look, and then nobody for lookAfter, may have fallen silent since.
	lookAfter = time.Second
	lookEvery = 5 * time.Second
)

// waiter is a request that waits for the head of its response.
type waiter struct {
	abandon context.CancelCauseFunc // nil where it may not be taken back
	repeat  bool                    // it may be asked again though it was sent
	// elsewhere: there is another endpoint, which it may be asked at as long as it
	// was not sent.
	elsewhere bool
	state     atomic.Int32
	look      *time.Timer
}

// States of a waiter. Only one that waits for a connection can be waitCanceled, and
// what was waitCanceled never gets one.
const (
	waitsForConn int32 = iota
	hasConn
	waitCanceled
)

// withdraw says that the request waits for a connection no longer; false: it has just
// got one. It is true also where another has withdrawn it before, for its own reason:
// then no connection comes, and who waited on would wait for ever.
func (w *waiter) withdraw() bool {
	return w.state.CompareAndSwap(waitsForConn, waitCanceled) || w.state.Load() == waitCanceled
}

// wait notes that a request with this context is about to wait for an endpoint of
// another worker. repeat: it may be asked again elsewhere after it was sent, and
// elsewhere: before that. The returned context is the one to send it with, and done is
// called when it waits no longer. It lasts until that of the request ends, since the
// body of the answer is read under it.
func (r *services) wait(ctx context.Context, e *endpoint, repeat, elsewhere bool) (_ context.Context, w *waiter, done func()) {
	w = &waiter{repeat: repeat, elsewhere: elsewhere}
	if repeat || elsewhere {
		ctx, w.abandon = context.WithCancelCause(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting == nil {
		e.waiting = map[*waiter]struct{}{}
	}
	e.waiting[w] = struct{}{}
	w.look = time.AfterFunc(lookAfter, func() { r.lookFor(w, e) })
	return ctx, w, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		w.look.Stop()
		delete(e.waiting, w)
	}
}

// lookFor looks at the endpoint that a request waits for, each lookAfter.
func (r *services) lookFor(w *waiter, e *endpoint) {
	r.look(e)
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, waits := e.waiting[w]; waits {
		w.look.Reset(lookAfter)
	}
}

// look makes sure that an endpoint can still be reached, where that is not known by what
// has just come from its worker.
func (r *services) look(e *endpoint) {
	if e.service.isEjected(e) {
		return // it is known, or being found out
	}
	now := time.Now()
	behind := append(slices.Clip(r.table.Load().byAddress[e.Address]), e)
	var life int64
	for _, x := range behind {
		life = max(life, x.reached.Load())
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
	if !r.opts.Spawn(func(ctx context.Context) {
		defer looked()
		if err := r.probeOne(ctx, e); err != nil {
			r.judge(e, err)
		}
	}) {
		looked()
	}
}

// lookDue says whether an endpoint that was looked at before (zero: never) is looked at
// now; life is when its worker answered last.
func lookDue(now, looked, life time.Time) bool {
	since := now.Sub(looked)
	return since >= lookEvery || since >= lookAfter && life.After(looked) && now.Sub(life) >= lookAfter
}

// abandon takes back what waits for endpoints that cannot be reached, and drops
// the connections that were kept to them.
func abandon(list []*endpoint) {
	for _, e := range list {
		e.mu.Lock()
		e.closeIdleLocked()
		for w := range e.waiting {
			if w.repeat {
				w.abandon(failure.ErrAbandoned)
			}
		}
		e.mu.Unlock()
	}
}
