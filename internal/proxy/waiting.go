package proxy

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// A worker that falls silent takes the requests with it that wait for an answer
// over kept connections: nothing tells this side, for as long as TCP goes on
// trying. So a request that has waited for a while has its endpoint looked at, and
// when a worker is not reached, what waits for it is asked elsewhere, if it may be
// asked twice.
const (
	// lookAfter is how long a request waits for the head of its response before
	// the endpoint is looked at. Longer than most answers take; slow ones cost one
	// probe in lookEvery.
	lookAfter = time.Second
	lookEvery = 5 * time.Second
)

// errAbandoned is why a request was taken back from an endpoint.
var errAbandoned = errors.New("its worker cannot be reached")

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

// States of a waiter. Only one that waits for a connection can be overtaken, and
// what was overtaken never gets one.
const (
	waitsForConn int32 = iota
	hasConn
	overtaken
)

// withdraw says that the request waits for a connection no longer; false: it has just
// got one. It is true also where another has withdrawn it before, for its own reason:
// then no connection comes, and who waited on would wait for ever.
func (w *waiter) withdraw() bool {
	return w.state.CompareAndSwap(waitsForConn, overtaken) || w.state.Load() == overtaken
}

// wait notes that a request with this context is about to wait for an endpoint of
// another worker. repeat: it may be asked again elsewhere after it was sent, and
// elsewhere: before that. The returned context is the one to send it with, and done is
// called when it waits no longer. It lasts until that of the request ends, since the
// body of the answer is read under it.
func (r *Router) wait(ctx context.Context, e *endpoint, repeat, elsewhere bool) (_ context.Context, w *waiter, done func()) {
	w = &waiter{repeat: repeat, elsewhere: elsewhere}
	w.look = time.AfterFunc(lookAfter, func() { r.look(e) })
	if repeat || elsewhere {
		ctx, w.abandon = context.WithCancelCause(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting == nil {
		e.waiting = map[*waiter]struct{}{}
	}
	e.waiting[w] = struct{}{}
	return ctx, w, func() {
		w.look.Stop()
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.waiting, w)
	}
}

// look makes sure that an endpoint can still be reached.
func (r *Router) look(e *endpoint) {
	now := time.Now()
	e.mu.Lock()
	due := now.Sub(e.looked) >= lookEvery && !e.retired
	if due {
		e.looked = now
	}
	e.mu.Unlock()
	if !due || e.service.isEjected(e) {
		return // it is known, or being found out
	}
	r.spawn(func(ctx context.Context) {
		if err := r.probeOne(ctx, e); err != nil {
			r.judge(e, err)
		}
	})
}

// abandon takes back what waits for endpoints that cannot be reached, and drops
// the connections that were kept to them.
func abandon(list []*endpoint) {
	for _, e := range list {
		e.mu.Lock()
		e.closeIdleLocked()
		for w := range e.waiting {
			if w.repeat {
				w.abandon(errAbandoned)
			}
		}
		e.mu.Unlock()
	}
}

// abandoned says whether a request was taken back because its worker is gone.
func abandoned(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errAbandoned) }
