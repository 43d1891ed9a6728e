package drive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	// judged is how many requests are enough to say that most of them fail.
	judged = 20
	// kept is how many times are kept of all, by chance, for the percentiles: the 99th
	// of them is between the 98.8th and the 99.2th of all in two of three runs.
	kept = 4096
	// letFinish is how long what is under way at the end may take.
	letFinish = 2 * time.Second
)

// Plan of a loop.
type Plan struct {
	// Clients that ask at the same time.
	Clients int
	// Warm is how long it goes on before it is measured, For how long after that.
	Warm, For time.Duration
	// Ask makes one request as a client, counted from 0, and returns when it was
	// answered as a whole, or why it was not. It ends with ctx.
	Ask func(ctx context.Context, client int) error
}

// Report of what was measured so far.
type Report struct {
	// Requests that were answered in Span, and Errors in the same time.
	Requests, Errors int
	Span             time.Duration
	// Mean, P50 and P99 of the time of those that were answered.
	Mean, P50, P99 time.Duration
	// Over: no more requests are sent. Why it failed; "" if it did not.
	Over bool
	Why  string
}

// Loop is one that runs once.
type Loop struct {
	plan Plan

	mu         sync.Mutex // guards below
	from       time.Time  // of the measuring
	until      time.Time
	over       bool
	why        string
	good, bad  int
	sum        time.Duration
	sample     []time.Duration
	random     *rand.Rand
	asked      int // also in Warm
	failed     int
	last       error // of those that failed
	stopAtOnce context.CancelFunc
}

// New is a loop that has not begun.
func New(p Plan) *Loop {
	return &Loop{plan: p, random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // a sample, no secret
}

// Run goes through the plan, or ends with ctx, and returns when nothing of it is left.
func (l *Loop) Run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	l.mu.Lock()
	l.from = time.Now().Add(l.plan.Warm)
	l.until = l.from.Add(l.plan.For)
	l.stopAtOnce = stop
	until := l.until
	l.mu.Unlock()
	asking, end := context.WithDeadline(ctx, until.Add(letFinish))
	defer end()
	var all sync.WaitGroup
	for client := range l.plan.Clients {
		all.Go(func() {
			for asking.Err() == nil && time.Now().Before(until) {
				began := time.Now()
				err := l.plan.Ask(asking, client)
				if asking.Err() != nil {
					return // its doing
				}
				l.note(began, time.Now(), err)
			}
		})
	}
	all.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.over = true; now.Before(l.until) {
		l.until = now
		if l.why == "" {
			l.why = "it was ended before its time"
		}
	}
	if l.why == "" && l.good == 0 {
		l.why = fmt.Sprintf("nothing was answered within %s", l.plan.For)
	}
	l.judge(1)
}

// note counts a request.
func (l *Loop) note(began, now time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if err != nil {
		l.failed++
		l.last = err
	}
	l.judge(judged)
	if !now.After(l.from) || now.After(l.until) {
		return
	}
	if err != nil {
		l.bad++
		return
	}
	took := now.Sub(began)
	l.good++
	l.sum += took
	if len(l.sample) < kept {
		l.sample = append(l.sample, took)
	} else if i := l.random.IntN(l.good); i < kept {
		l.sample[i] = took
	}
}

// judge ends it where most of at least so many fail.
func (l *Loop) judge(least int) {
	if l.asked >= least && 2*l.failed > l.asked && (l.why == "" || l.good == 0) {
		l.why = fmt.Sprintf("%d of %d requests failed, the last: %v", l.failed, l.asked, l.last)
		l.stopAtOnce()
	}
}

// Report says what was measured until now.
func (l *Loop) Report() Report {
	l.mu.Lock()
	sample := slices.Clone(l.sample)
	r := Report{Requests: l.good, Errors: l.bad, Over: l.over, Why: l.why}
	if end := time.Now(); !l.from.IsZero() {
		if end.After(l.until) {
			end = l.until
		}
		r.Span = max(0, end.Sub(l.from))
	}
	if l.good > 0 {
		r.Mean = l.sum / time.Duration(l.good)
	}
	l.mu.Unlock()
	if n := len(sample); n > 0 {
		slices.Sort(sample)
		r.P50, r.P99 = sample[(n-1)/2], sample[(n-1)*99/100]
	}
	return r
}
