package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/policy/scale"
)

// Why a request is not let in. Nothing of it was sent anywhere.
var (
	// ErrFull: as many wait as may.
	ErrFull = errors.New("its queue is full")
	// ErrLate: its time was over while it waited.
	ErrLate = errors.New("the deadline passed while it waited in the queue")
)

// Limits of a queue.
type Limits struct {
	// Places are the requests that run at a time; 0: any number.
	Places int
	// Waiting are those that may wait.
	Waiting int
}

// Queue is the queue in front of one instance. Make one with New.
type Queue struct {
	mu      sync.Mutex // guards below; never held while something blocks
	limits  Limits
	meter   scale.Meter
	closed  bool // nobody starts until Open
	running int
	waiting int
	// first and last of those that wait.
	first, last *Ticket
	refused     uint64
	changed     time.Time // when a request came or ended last
}

// Ticket is one request's place in a queue. The zero value is for one Enter; it is
// used again after Done.
type Ticket struct {
	queue      *Queue
	token      scale.Token
	prev, next *Ticket
	in         bool          // it runs
	admitted   chan struct{} // closed when it runs, or err says why not; nil: it did not wait
	err        error
}

// New makes a queue that lets requests in.
func New(l Limits, now time.Time) *Queue {
	return &Queue{limits: l, meter: scale.NewMeter(now), changed: now}
}

// SetLimits changes the limits. Who runs or waits already stays.
func (q *Queue) SetLimits(l Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limits == l {
		return
	}
	q.limits = l
	q.admitLocked(time.Now())
}

// Enter waits until the request may run, at most until deadline (zero: as long as ctx lasts).
// With an error it is not in: ErrFull, ErrLate, the error of Fail, or that of ctx. Otherwise call
// Done once.
func (q *Queue) Enter(ctx context.Context, t *Ticket, deadline time.Time) error {
	return q.EnterThen(ctx, t, deadline, nil)
}

// EnterThen is Enter which calls queued, if it is not nil, when the request begins to
// wait: what Open and Fail are called for from then on concerns it.
func (q *Queue) EnterThen(ctx context.Context, t *Ticket, deadline time.Time, queued func()) error {
	now := time.Now()
	q.mu.Lock()
	*t = Ticket{queue: q}
	q.changed = now
	if q.freeLocked() && q.first == nil {
		t.token = q.meter.Arrived(now)
		q.startLocked(t, now)
		q.mu.Unlock()
		return nil
	}
	if q.waiting >= q.limits.Waiting && !(q.closed && q.waiting < q.limits.Places) {
		q.refused++
		q.mu.Unlock()
		return ErrFull
	}
	t.token = q.meter.Arrived(now)
	t.admitted = make(chan struct{})
	q.waiting++
	t.prev = q.last
	if q.last == nil {
		q.first = t
	} else {
		q.last.next = t
	}
	q.last = t
	q.mu.Unlock()
	if queued != nil {
		queued()
	}
	return q.wait(ctx, t, now, deadline)
}

func (q *Queue) wait(ctx context.Context, t *Ticket, now, deadline time.Time) error {
	var late <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(deadline.Sub(now))
		defer timer.Stop()
		late = timer.C
	}
	var err error
	select {
	case <-t.admitted:
		return t.err
	case <-late:
		err = ErrLate
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-t.admitted: // it was admitted at the same time
		if t.err != nil {
			return t.err
		}
		if ctx.Err() == nil {
			return nil
		}
		q.endLocked(t, time.Now(), false)
	default:
		q.unlinkLocked(t)
		q.meter.Left(&t.token, time.Now())
	}
	return err
}

// Done ends a request that is in. Answered: it was answered by the instance, so that
// the time it took says how fast that is. Further calls do nothing.
func (t *Ticket) Done(answered bool) { t.DoneAt(time.Now(), answered) }

// DoneAt is Done at a time that is known.
func (t *Ticket) DoneAt(now time.Time, answered bool) {
	if t.queue == nil {
		return
	}
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endLocked(t, now, answered)
}

// Waited says that so much of the time in which the request ran was spent with waiting for
// those who ask, as scale.Token has it. It is called before Done.
func (t *Ticket) Waited(d time.Duration) {
	if t.queue == nil || d <= 0 {
		return
	}
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.token.Waited(d)
}

// Report is that of the queue of a request; the zero Report where it is in none.
func (t *Ticket) Report() scale.Report {
	if t.queue == nil {
		return scale.Report{}
	}
	return t.queue.Report(time.Now())
}

// Close lets nobody start until Open is called: the instance sleeps.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// Open lets requests start again.
func (q *Queue) Open() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		q.closed = false
		q.admitLocked(time.Now())
	}
}

// Fail sends away whoever waits, with err: the instance will not come.
func (q *Queue) Fail(err error) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	for t := q.first; t != nil; t = q.first {
		q.unlinkLocked(t)
		q.meter.Left(&t.token, now)
		t.err = err
		close(t.admitted)
	}
}

// Report is what the queue has measured.
func (q *Queue) Report(now time.Time) scale.Report {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.meter.Report(now)
}

// State of a queue.
type State struct {
	Waiting, Running int
	// Closed: nobody starts.
	Closed bool
	// Refused is how many were refused because it is full.
	Refused uint64
	// Changed is when a request came or ended last; when the queue was made if none
	// did.
	Changed time.Time
	Limits  Limits
}

// State of the queue now.
func (q *Queue) State() State {
	q.mu.Lock()
	defer q.mu.Unlock()
	return State{q.waiting, q.running, q.closed, q.refused, q.changed, q.limits}
}

func (q *Queue) freeLocked() bool {
	return !q.closed && (q.limits.Places == 0 || q.running < q.limits.Places)
}

func (q *Queue) startLocked(t *Ticket, now time.Time) {
	q.meter.Started(&t.token, now)
	t.in = true
	q.running++
}

func (q *Queue) endLocked(t *Ticket, now time.Time, answered bool) {
	if !t.in {
		return
	}
	t.in = false
	q.changed = now
	if answered {
		q.meter.Finished(&t.token, now)
	} else {
		q.meter.Failed(&t.token, now)
	}
	q.running--
	q.admitLocked(now)
}

// admitLocked starts waiting requests while there are places.
func (q *Queue) admitLocked(now time.Time) {
	for q.first != nil && q.freeLocked() {
		t := q.first
		q.unlinkLocked(t)
		q.startLocked(t, now)
		close(t.admitted)
	}
}

func (q *Queue) unlinkLocked(t *Ticket) {
	q.waiting--
	if t.prev == nil {
		q.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		q.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
}
