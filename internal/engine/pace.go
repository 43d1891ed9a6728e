package engine

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"time"
)

// Pace of probes until an instance has started or is ready: quick at first,
// because most start quickly and a deploy waits for it. A command costs more
// than a connection.
const (
	firstProbe   = 20 * time.Millisecond
	quickProbe   = 2 * time.Millisecond // where a request waits
	slowest      = 500 * time.Millisecond
	firstCommand = 100 * time.Millisecond
)

// tellAfter is how long a check may not have passed before its reason is told: an
// ordinary start makes one report then and not two.
const tellAfter = time.Second

// While a check goes on failing its reason is told again where it has changed, at most
// once in retellFirst, then in twice as long each time, up to retellMost: each time is a
// message on links that may be thin, and a body may be another one with each probe.
const (
	retellFirst = 4 * time.Second
	retellMost  = time.Minute
)

// recently is how many of the last probes a reason counts. A count that has got there does
// not change any more while all of them fail.
const recently = 60

// stallSlack is how much later than expected something may be over before this
// process takes itself, and not the instance, for the cause: it was stopped, or
// the machine was asleep or overloaded.
const stallSlack = time.Second

// verdict is what became known by a check. why names the check and says what the last
// probe found: `readiness http /healthz: 503 "no data" (60 of 60)`.
type verdict struct {
	kind checkKind
	pass bool
	// final: it failed as often in a row as its instance may.
	final bool
	why   string
}

// course is how a check goes: what its probes have found so far. It is not safe
// for concurrent use.
type course struct {
	c       check
	passing bool
	failed  int           // probes in a row
	began   time.Time     // of the time in which it has not passed
	pause   time.Duration // before the next probe, while it does not pass
	// told is the reason that was told last, while it does not pass, and retell when the
	// next one may be, which comes gap after it.
	told   string
	retell time.Time
	gap    time.Duration
	// recent has a bit for each of the last probes, the latest is the lowest, which is set
	// where it failed. probes counts them, up to recently.
	recent uint64
	probes int
}

// newCourse begins a check, of which is known whether it passed before.
func newCourse(c check, passing bool, now time.Time) *course {
	return &course{c: c, passing: passing || c.kind == livenessCheck, began: now}
}

// first is how long to wait before the first probe.
func (s *course) first() time.Duration {
	if s.passing {
		return s.c.interval
	}
	return 0
}

// took takes over what a probe found, nil if it passed. It returns what is to be
// told, if anything, and when to probe again.
func (s *course) took(err error, now time.Time) (v verdict, tell bool, next time.Duration) {
	v.kind = s.c.kind
	s.note(err != nil)
	if err == nil {
		s.failed, s.pause, s.told, s.retell, s.gap = 0, 0, "", time.Time{}, 0
		tell = !s.passing
		s.passing, v.pass = true, true
		return v, tell, s.c.interval
	}
	v.why = fmt.Sprintf("%s: %v (%d of %d)", s.c.name(), err, bits.OnesCount64(s.recent), s.probes)
	if s.failed == 0 && s.passing {
		s.began = now
	}
	s.failed++
	switch {
	case s.c.kind == startupCheck:
		// It is probed more often than once per interval, but has the time that so
		// many intervals take.
		v.final = s.failed >= s.c.failures && now.Sub(s.began) >= time.Duration(s.c.failures)*s.c.interval
	case s.passing && s.failed >= s.c.failures:
		s.passing = s.c.kind == livenessCheck
		v.final = s.passing
		if v.final {
			v.why = fmt.Sprintf("%s: %v (%d in a row)", s.c.name(), err, s.failed)
		}
		s.tells(v.why, now)
		return v, true, s.unsettled()
	case s.passing:
		return v, false, s.c.interval
	}
	if v.final || now.Sub(s.began) >= tellAfter && v.why != s.told && !now.Before(s.retell) {
		s.tells(v.why, now)
		tell = true
	}
	return v, tell, s.unsettled()
}

// note keeps whether a probe failed.
func (s *course) note(failed bool) {
	s.recent <<= 1
	if failed {
		s.recent |= 1
	}
	s.recent &= 1<<recently - 1
	s.probes = min(s.probes+1, recently)
}

// tells notes that a reason is told.
func (s *course) tells(why string, now time.Time) {
	s.gap = min(max(2*s.gap, retellFirst), retellMost)
	s.told, s.retell = why, now.Add(s.gap)
}

// limit is the longest pause while a check does not pass.
func (s *course) limit() time.Duration {
	if s.c.command != nil {
		return s.c.interval
	}
	return slowest
}

// unsettled is the pause before the next probe while the check does not pass.
func (s *course) unsettled() time.Duration {
	if s.pause == 0 {
		s.pause = firstProbe
		if s.c.quick {
			s.pause = quickProbe
		}
		if s.c.command != nil {
			s.pause = min(firstCommand, s.limit())
		}
	} else {
		s.pause = min(s.pause*3/2, s.limit())
	}
	return s.pause
}

// stalled notes that this process was not there for a while. What failed before
// is too old to be in a row with what fails now.
func (s *course) stalled(d time.Duration) (next time.Duration) {
	if s.c.kind == startupCheck {
		s.began = s.began.Add(d)
		return s.unsettled()
	}
	s.failed = 0
	if s.passing {
		// All checks of a worker wake up together; they need not all probe at once.
		return rand.N(s.c.interval)
	}
	return s.unsettled()
}

// clock measures how long something takes that should take no longer than
// expected.
type clock struct{ began time.Time }

// stall is how much longer it took; 0 if it was about what was expected. Both
// clocks count: while a machine sleeps only the wall clock goes on.
func (c clock) stall(expected time.Duration) time.Duration {
	now := time.Now()
	passed := max(now.Sub(c.began), now.Round(0).Sub(c.began.Round(0)))
	if passed <= 2*expected+stallSlack {
		return 0
	}
	return passed - expected
}

// stallError says that the time of a probe was over while this process was not
// there to see an answer.
type stallError struct{ d time.Duration }

func (e *stallError) Error() string {
	return fmt.Sprintf("nobody was there for %s to see it", e.d.Round(time.Millisecond))
}

// timed runs a probe that has no longer than timeout. The error is a *stallError
// where that says nothing about the instance.
func timed(ctx context.Context, timeout time.Duration, probe func(context.Context) error) error {
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

// checking probes until ctx is done, or tell says that it has heard enough. tell
// is called with every change. passing says whether the check passed before.
func checking(ctx context.Context, c check, passing bool, probe func(context.Context) error, tell func(verdict) (enough bool)) {
	s := newCourse(c, passing, time.Now())
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
			pause = s.stalled(d)
			timer.Reset(pause)
			continue
		}
		err := probe(ctx)
		if ctx.Err() != nil {
			return
		}
		var away *stallError
		if errors.As(err, &away) {
			pause = s.stalled(away.d)
			timer.Reset(pause)
			continue
		}
		var v verdict
		var news bool
		v, news, pause = s.took(err, time.Now())
		if news && tell(v) {
			return
		}
		timer.Reset(pause)
	}
}
