package engine

import (
	"context"
	"errors"
	"fmt"
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

// stallSlack is how much later than expected something may be over before this
// process takes itself, and not the instance, for the cause: it was stopped, or
// the machine was asleep or overloaded.
const stallSlack = time.Second

// verdict is what became known by a check; why says what the last probe found.
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
	told    string
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
	if err == nil {
		s.failed, s.pause, s.told = 0, 0, ""
		tell = !s.passing
		s.passing, v.pass = true, true
		return v, tell, s.c.interval
	}
	v.why = err.Error()
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
		s.told = v.why
		return v, true, s.unsettled()
	case s.passing:
		return v, false, s.c.interval
	}
	if v.final || now.Sub(s.began) >= tellAfter && v.why != s.told {
		s.told, tell = v.why, true
	}
	return v, tell, s.unsettled()
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
