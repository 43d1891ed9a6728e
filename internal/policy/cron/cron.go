package cron

import (
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// OnTime is how late a run may begin without counting as missed.
	OnTime = time.Minute
	// MaxPending bounds the missed runs that are caught up.
	MaxPending = 100
	// maxSpans bounds the remembered intervals of times that had runs. Beyond it, adjacent
	// intervals merge: the times between them then count as done too, which matters only if
	// the clock is set back that far.
	maxSpans = 8
	// maxAhead is how far the clock of a schedule's previous cluster may be ahead of ours
	// without a run being repeated here.
	maxAhead = 2 * time.Hour
)

// Rules of a schedule.
type Rules struct {
	Schedule *api.Schedule
	// Concurrency and Missed as in api.Cron.
	Concurrency, Missed string
}

// Now is the input of a decision besides the state.
type Now struct {
	// Running: a run is in progress. Suspended: none may begin.
	Running, Suspended bool
	At                 time.Time
}

// Decision is what happens to a schedule now.
type Decision struct {
	// State is stored in the same write as the run that begins.
	State wire.CronState
	// Begin is the time whose run begins now, zero for none. A run in progress is ended first.
	Begin time.Time
	// Said are messages for people.
	Said []string
	// Wake is when to decide again even if nothing happens; zero: never.
	Wake time.Time
}

// Start is the first state of a schedule. old is the state under its previous rule, nil for none:
// times that had runs keep them.
func Start(rule string, old *wire.CronState, after time.Time) wire.CronState {
	s := wire.CronState{Rule: rule, After: after.UTC()}
	if old != nil {
		s.Begun, s.Missed, s.Skipped = slices.Clone(old.Begun), old.Missed, old.Skipped
	}
	return s
}

// TakenOver is the first state of a schedule that another cluster had until after: earlier times
// are decided, except pending ones. A wrong clock of that cluster delays no run here by more than
// maxAhead.
func TakenOver(rule string, after time.Time, pending []time.Time, now time.Time) wire.CronState {
	after, _ = Bound(after, nil, now.Add(maxAhead))
	s := Start(rule, nil, after)
	_, s.Pending = Bound(after, pending, now)
	s.Begun = []wire.Times{{From: time.Unix(0, 0).UTC(), To: s.After}}
	return s
}

// Bound drops times after a moment from the state that another cluster reports.
func Bound(after time.Time, pending []time.Time, until time.Time) (time.Time, []time.Time) {
	if until = until.Round(0).UTC(); after.After(until) {
		after = until
	}
	return after, slices.DeleteFunc(slices.Clone(pending), func(at time.Time) bool { return at.After(until) })
}

// Decide decides whether a run begins now.
func Decide(r Rules, s wire.CronState, n Now) Decision {
	now := n.At.Round(0).UTC()
	s.Begun, s.Pending = slices.Clone(s.Begun), slices.Clone(s.Pending)
	d := Decision{State: s}
	if now.Before(s.After) {
		d.say("the clock was set back by %s: what has run for times to come is not run again",
			s.After.Sub(now).Round(time.Second))
		d.State.After = now
		d.State.Pending = slices.DeleteFunc(d.State.Pending, func(at time.Time) bool { return at.After(now) })
	}
	due, more := latest(r.Schedule, d.State.After, now, MaxPending+1)
	if len(due) > 0 {
		d.State.After = due[len(due)-1]
	}
	due = slices.DeleteFunc(due, func(at time.Time) bool { return begun(d.State.Begun, at) })
	if n.Suspended {
		d.State.Pending = nil
	} else {
		d.weigh(r, n, due, more, now)
	}
	if next := r.Schedule.Next(now); !next.IsZero() {
		d.Wake = next.UTC()
	}
	return d
}

func (d *Decision) say(format string, args ...any) {
	d.Said = append(d.Said, fmt.Sprintf(format, args...))
}

// weigh decides about the times that are due. more: there were earlier ones.
func (d *Decision) weigh(r Rules, n Now, due []time.Time, more bool, now time.Time) {
	var ready time.Time // that is on time
	if k := len(due) - 1; k >= 0 && now.Sub(due[k]) <= OnTime {
		ready, due = due[k], due[:k]
	}
	d.missed(r, due, more, !ready.IsZero())
	switch {
	case !ready.IsZero() && n.Running && r.Concurrency != api.CronReplace:
		d.State.Skipped++
		d.say("the run of %s is skipped: the previous one is still running", said(r, ready))
	case !ready.IsZero() && len(d.State.Pending) > 0 && !n.Running && r.Missed == api.MissedAll:
		d.State.Pending = append(d.State.Pending, ready) // after those that are older
	case !ready.IsZero():
		d.begin(r, ready)
		if r.Missed != api.MissedAll {
			d.State.Pending = nil // it is for them as well
		}
		return
	}
	if len(d.State.Pending) > 0 && !n.Running {
		at := d.State.Pending[0]
		d.State.Pending = d.State.Pending[1:]
		d.begin(r, at)
	}
	if len(d.State.Pending) == 0 {
		d.State.Pending = nil
	}
}

// missed decides about times that have passed. instead: another run is on time.
func (d *Decision) missed(r Rules, due []time.Time, more, instead bool) {
	if len(due) == 0 {
		return
	}
	d.State.Missed += uint64(len(due))
	what := "the run of " + said(r, due[0]) + " was missed"
	if len(due) > 1 {
		what = fmt.Sprintf("%d runs were missed, from %s to %s", len(due), said(r, due[0]), said(r, due[len(due)-1]))
	}
	if more {
		what += ", and more before them that are not counted"
	}
	switch r.Missed {
	case api.MissedAll:
		d.State.Pending = append(d.State.Pending, due...)
		if over := len(d.State.Pending) - MaxPending; over > 0 {
			d.State.Pending = d.State.Pending[over:]
			what += fmt.Sprintf("; the first %d are left out", over)
		}
		what += "; they are made up for"
	case api.MissedSkip:
		what += "; nothing is made up for (missed: skip)"
	default:
		if instead {
			what += "; the run that is due now is for all of them"
			break
		}
		d.State.Pending = []time.Time{due[len(due)-1]}
		what += "; one run is for all of them"
	}
	d.say("%s", what)
}

// begin notes the run of a time.
func (d *Decision) begin(r Rules, at time.Time) {
	d.Begin = at
	d.State.Begun = cover(d.State.Begun, at, r.Schedule)
}

// said formats a time for people.
func said(r Rules, at time.Time) string {
	return at.In(r.Schedule.Zone()).Format("2006-01-02 15:04 MST")
}

// begun says whether the run of a time has begun.
func begun(list []wire.Times, at time.Time) bool {
	return slices.ContainsFunc(list, func(s wire.Times) bool { return !at.Before(s.From) && !at.After(s.To) })
}

// cover adds a time to those that have begun.
func cover(list []wire.Times, at time.Time, s *api.Schedule) []wire.Times {
	at = at.UTC()
	k := 0
	for k < len(list) && list[k].To.Before(at) {
		k++
	}
	if k > 0 && s.Next(list[k-1].To).Equal(at) {
		list[k-1].To = at
	} else {
		list = slices.Insert(list, k, wire.Times{From: at, To: at})
	}
	for len(list) > maxSpans {
		// The two with the smallest gap merge.
		least := 1
		for k := 2; k < len(list); k++ {
			if list[k].From.Sub(list[k-1].To) < list[least].From.Sub(list[least-1].To) {
				least = k
			}
		}
		list[least-1].To = list[least].To
		list = slices.Delete(list, least, least+1)
	}
	return list
}

// latest returns the last times, at most most, at which s was due after one time and up to another;
// more says that there were earlier ones.
func latest(s *api.Schedule, after, until time.Time, most int) (list []time.Time, more bool) {
	first := s.Next(after)
	if first.IsZero() || first.After(until) {
		return nil, false
	}
	// How often it is due is not known: the window doubles until it has enough.
	for window := time.Hour; ; window *= 2 {
		from := until.Add(-window)
		whole := window <= 0 || !from.After(after) // it may be longer than a time.Duration
		if whole {
			from = after
		}
		list = list[:0]
		for at := s.Next(from); !at.IsZero() && !at.After(until); at = s.Next(at) {
			list = append(list, at.UTC())
		}
		if whole || len(list) >= most {
			list = list[max(0, len(list)-most):]
			return list, first.Before(list[0])
		}
	}
}
