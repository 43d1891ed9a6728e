package health

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"time"
)

// Pace of probes until an instance has started or is ready: quick at first, because most start
// quickly and a deployment waits for it. A command costs more than a connection.
const (
	firstProbe   = 20 * time.Millisecond
	quickProbe   = time.Millisecond / 2 // where a request waits; then an eighth of what it has waited
	slowest      = 500 * time.Millisecond
	firstCommand = 100 * time.Millisecond
)

// tellAfter is how long a check fails before its reason is shown, so that an ordinary start makes
// one report.
const tellAfter = time.Second

// While a check keeps failing its reason is shown again when it has changed, at most once in
// retellFirst, then in twice as long each time, up to retellMost: each time is a message on links
// that may be thin.
const (
	retellFirst = 4 * time.Second
	retellMost  = time.Minute
)

// recently is how many of the last probes a reason counts.
const recently = 60

// StallSlack is how late a timer may be before this process, and not the instance, counts as the
// cause: it was stopped, or the machine was asleep or overloaded.
const StallSlack = time.Second

// Result is what a check has found. Why names the check and says what the last probe found:
// `readiness http /healthz: 503 "no data" (60 of 60)`.
type Result struct {
	Kind Kind
	Pass bool
	// Final: it failed as often in a row as the check allows.
	Final bool
	Why   string
}

// progress is the series of probes of a check so far. It is not safe for concurrent use.
type progress struct {
	c       Check
	passing bool
	failed  int           // probes in a row
	began   time.Time     // of the time in which it has not passed
	pause   time.Duration // before the next probe, while it does not pass
	// told is the reason that was shown last while the check fails; the next one may be shown at
	// retell, gap after it.
	told   string
	retell time.Time
	gap    time.Duration
	// recent has a bit for each of the last probes, the latest lowest, set where it failed. probes
	// counts them, up to recently.
	recent uint64
	probes int
}

// newProgress begins a check; passing says whether it passed before.
func newProgress(c Check, passing bool, now time.Time) *progress {
	return &progress{c: c, passing: passing || c.Kind == Liveness, began: now}
}

// first is how long to wait before the first probe.
func (s *progress) first() time.Duration {
	if s.passing {
		return s.c.interval
	}
	return 0
}

// add takes the outcome of a probe, nil if it passed. It returns what to show, if anything, and
// when to probe again.
func (s *progress) add(err error, now time.Time) (v Result, tell bool, next time.Duration) {
	v.Kind = s.c.Kind
	s.note(err != nil)
	if err == nil {
		s.failed, s.pause, s.told, s.retell, s.gap = 0, 0, "", time.Time{}, 0
		tell = !s.passing
		s.passing, v.Pass = true, true
		return v, tell, s.c.interval
	}
	v.Why = fmt.Sprintf("%s: %v (%d of %d)", s.c.name(), err, bits.OnesCount64(s.recent), s.probes)
	if s.failed == 0 && s.passing {
		s.began = now
	}
	s.failed++
	switch {
	case s.c.Kind == Startup:
		// It is probed more often than once per interval, but has as much time as that many
		// intervals.
		v.Final = s.failed >= s.c.failures && now.Sub(s.began) >= time.Duration(s.c.failures)*s.c.interval
	case s.passing && s.failed >= s.c.failures:
		s.passing = s.c.Kind == Liveness
		v.Final = s.passing
		if v.Final {
			v.Why = fmt.Sprintf("%s: %v (%d in a row)", s.c.name(), err, s.failed)
		}
		s.toldAt(v.Why, now)
		return v, true, s.unsettled(now)
	case s.passing:
		return v, false, s.c.interval
	}
	if v.Final || now.Sub(s.began) >= tellAfter && v.Why != s.told && !now.Before(s.retell) {
		s.toldAt(v.Why, now)
		tell = true
	}
	return v, tell, s.unsettled(now)
}

// note keeps whether a probe failed.
func (s *progress) note(failed bool) {
	s.recent <<= 1
	if failed {
		s.recent |= 1
	}
	s.recent &= 1<<recently - 1
	s.probes = min(s.probes+1, recently)
}

// toldAt notes that a reason is shown.
func (s *progress) toldAt(why string, now time.Time) {
	s.gap = min(max(2*s.gap, retellFirst), retellMost)
	s.told, s.retell = why, now.Add(s.gap)
}

// limit is the longest pause while a check does not pass.
func (s *progress) limit() time.Duration {
	if s.c.Command != nil {
		return s.c.interval
	}
	return slowest
}

// unsettled is the pause before the next probe while the check does not pass.
func (s *progress) unsettled(now time.Time) time.Duration {
	switch {
	case s.c.Quick && s.c.Command == nil:
		s.pause = min(max(now.Sub(s.began)/8, quickProbe), s.limit())
	case s.pause > 0:
		s.pause = min(s.pause*3/2, s.limit())
	case s.c.Command != nil:
		s.pause = min(firstCommand, s.limit())
	default:
		s.pause = firstProbe
	}
	return s.pause
}

// stalled notes that this process did not run for a while: earlier failures no longer count as in
// a row.
func (s *progress) stalled(d time.Duration, now time.Time) (next time.Duration) {
	if s.c.Kind == Startup {
		s.began = s.began.Add(d)
		return s.unsettled(now)
	}
	s.failed = 0
	if s.passing {
		// All checks of a worker wake up together; they need not all probe at once.
		return rand.N(s.c.interval)
	}
	return s.unsettled(now)
}

// clock measures how much longer something takes than expected.
type clock struct{ began time.Time }

// stall is how much longer it took; 0 if it was about as expected. Both clocks count: while a
// machine sleeps only the wall clock advances.
func (c clock) stall(expected time.Duration) time.Duration {
	now := time.Now()
	passed := max(now.Sub(c.began), now.Round(0).Sub(c.began.Round(0)))
	if passed <= 2*expected+StallSlack {
		return 0
	}
	return passed - expected
}

// stallError says that a probe timed out while this process did not run.
type stallError struct{ d time.Duration }

func (e *stallError) Error() string {
	return fmt.Sprintf("nobody was there for %s to see it", e.d.Round(time.Millisecond))
}

// Timed runs a probe with a timeout. The error is a *stallError where it says nothing about the
// instance.
func Timed(ctx context.Context, timeout time.Duration, probe func(context.Context) error) error {
	tctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	asking, late := clock{time.Now()}, make(chan time.Duration, 1)
	stop := context.AfterFunc(tctx, func() { late <- asking.stall(timeout) })
	err := probe(tctx)
	if stop() || err == nil || ctx.Err() != nil {
		return err
	}
	if d := <-late; d > 0 {
		return &stallError{d}
	}
	return err
}

// probeUntil probes until ctx is done or tell returns true. tell gets every change. passing says
// whether the check passed before.
func probeUntil(ctx context.Context, c Check, passing bool, probe func(context.Context) error,
	tell func(Result) (enough bool)) {
	s := newProgress(c, passing, time.Now())
	pause := s.first()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		waiting := clock{time.Now()}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if d := waiting.stall(pause); d > 0 {
			pause = s.stalled(d, time.Now())
			timer.Reset(pause)
			continue
		}
		err := probe(ctx)
		if ctx.Err() != nil {
			return
		}
		var away *stallError
		if errors.As(err, &away) {
			pause = s.stalled(away.d, time.Now())
			timer.Reset(pause)
			continue
		}
		var v Result
		var news bool
		v, news, pause = s.add(err, time.Now())
		if news && tell(v) {
			return
		}
		timer.Reset(pause)
	}
}
