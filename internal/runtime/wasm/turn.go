package wasm

import (
	"context"
	goruntime "runtime"
	"slices"
	"sync"
	"time"
)

// processors is how many runs of a task have a turn to compute at a time: its limit in
// thousandths of a processor, rounded up (0: no limit), and at most all but one of the
// processors of this process, which the routers share. A run that outlasts its slice goes
// on without a turn, so more may compute for a while.
func processors(limit int64, have int) int {
	most := max(have-1, 1)
	if limit <= 0 {
		return most
	}
	return int(min((limit+999)/1000, int64(most)))
}

// slice is for how long a run may compute while others wait for their turn. Then it goes on
// without its turn, beside the one that has that next: nobody can stop it in between.
const slice = 100 * time.Millisecond

// turns of a task, which its runs take one after another.
type turns struct {
	most int

	mu      sync.Mutex // guards below
	holders []*turn    // that compute, the first first
	lent    int        // of them, whose turn another one has
	queue   []*turn    // that wait, the first first
}

// newTurns are those of a task with this limit of processors.
func newTurns(limit int64) *turns { return &turns{most: processors(limit, goruntime.GOMAXPROCS(0))} }

// turn is what a run has while it computes, and gives back while it waits for somebody.
// It belongs to the goroutine of the run. nil is one that is always had.
type turn struct {
	of  *turns
	ctx context.Context

	// Guarded by of.mu.
	held, lent bool
	since      time.Time
	granted    chan struct{} // closed when it is held; nil: it did not have to wait
}

// take waits for a turn, for as long as the request may last. Who gets none then goes
// on without: it is ended at its next step anyway.
func (t *turn) take() {
	if t == nil {
		return
	}
	o := t.of
	o.mu.Lock()
	defer o.mu.Unlock()
	if t.held {
		return
	}
	if len(o.queue) == 0 && len(o.holders)-o.lent < o.most {
		o.holdLocked(t, time.Now())
		return
	}
	t.granted = make(chan struct{})
	o.queue = append(o.queue, t)
	for o.grantLocked(time.Now()); !t.held; o.grantLocked(time.Now()) {
		timer := time.NewTimer(time.Until(o.dueLocked()))
		o.mu.Unlock()
		var over bool
		select {
		case <-t.granted:
		case <-timer.C:
		case <-t.ctx.Done():
			over = true
		}
		timer.Stop()
		o.mu.Lock()
		if over && !t.held {
			o.queue = slices.DeleteFunc(o.queue, func(x *turn) bool { return x == t })
			return
		}
	}
}

func (t *turn) give() {
	if t == nil {
		return
	}
	o := t.of
	o.mu.Lock()
	defer o.mu.Unlock()
	if !t.held {
		return
	}
	if t.lent {
		o.lent--
	}
	t.held, t.lent = false, false
	o.holders = slices.DeleteFunc(o.holders, func(x *turn) bool { return x == t })
	o.grantLocked(time.Now())
}

// grantLocked gives those that wait the turns that nobody has, and, where somebody had one
// for too long, that.
func (o *turns) grantLocked(now time.Time) {
	for len(o.queue) > 0 {
		if len(o.holders)-o.lent >= o.most {
			i := o.oldestLocked()
			if now.Before(o.dueLocked()) {
				return
			}
			o.holders[i].lent = true
			o.lent++
		}
		t := o.queue[0]
		o.queue = o.queue[1:]
		o.holdLocked(t, now)
		close(t.granted)
	}
}

func (o *turns) holdLocked(t *turn, now time.Time) {
	t.held, t.since = true, now
	o.holders = append(o.holders, t)
}

// oldestLocked is the holder that has had its turn for longest.
func (o *turns) oldestLocked() int {
	return slices.IndexFunc(o.holders, func(t *turn) bool { return !t.lent })
}

// dueLocked is when its turn may be lent. Each that was lent doubles the time: a function
// that computes for ever in request after request takes ever longer to take one more
// processor from the routers.
func (o *turns) dueLocked() time.Time {
	return o.holders[o.oldestLocked()].since.Add(slice << min(o.lent, 8))
}

// computing is how many runs do.
func (o *turns) computing() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.holders)
}
