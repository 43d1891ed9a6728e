package cron

import (
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// OnTime is how late a run may begin without having been missed.
	OnTime = time.Minute
	// MaxPending is how many missed runs are made up for.
	MaxPending = 100
	// maxSpans is how many stretches of times are remembered that had runs. Where there
	// are more, those next to each other become one: what is between them is then taken
	// for done as well, which matters only if the clock is set back that far.
	maxSpans = 8
	// maxAhead is how far the clock of who gives a schedule may be before ours without a
	// run of before beginning again here.
	maxAhead = 2 * time.Hour
)

// Rules of a schedule.
type Rules struct {
	Schedule *api.Schedule
	// Concurrency and Missed as in api.Cron.
	Concurrency, Missed string
}

// Now is what a decision is about besides the state.
type Now struct {
	// Running: a run goes on. Suspended: none is to begin.
	Running, Suspended bool
	At                 time.Time
}

// Decision is what becomes of a schedule at a moment.
type Decision struct {
	// State is what is to be remembered, in the same write as the run that begins.
	State wire.CronState
	// Begin is the time whose run begins now, zero for none. One that goes on ends first.
	Begin time.Time
	// Said is what people should hear.
	Said []string
	// Wake is when to decide again although nothing happens; zero: never.
	Wake time.Time
}

// Start is the state with which a schedule begins at a time. old is the state with another
// rule, nil for none: what it has begun stays begun.
func Start(rule string, old *wire.CronState, after time.Time) wire.CronState {
	s := wire.CronState{Rule: rule, After: after.UTC()}
	if old != nil {
		s.Begun, s.Missed, s.Skipped = slices.Clone(old.Begun), old.Missed, old.Skipped
	}
	return s
}

// TakenOver is the state with which a schedule begins now that another cluster had until
// after: what was due before is decided, but for what is pending. That one's clock, or what
// it says of it, stops no run here for longer than maxAhead.
func TakenOver(rule string, after time.Time, pending []time.Time, now time.Time) wire.CronState {
	after, _ = Bound(after, nil, now.Add(maxAhead))
	s := Start(rule, nil, after)
	_, s.Pending = Bound(after, pending, now)
	s.Begun = []wire.Times{{From: time.Unix(0, 0).UTC(), To: s.After}}
	return s
}

// Bound leaves of what a cluster says of a schedule that it had what lies not after a time.
func Bound(after time.Time, pending []time.Time, until time.Time) (time.Time, []time.Time) {
	if until = until.Round(0).UTC(); after.After(until) {
		after = until
	}
	return after, slices.DeleteFunc(slices.Clone(pending), func(at time.Time) bool { return at.After(until) })
}

// Decide says whether a run begins now.
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

// weigh decides what becomes of times that are due. more: there were others before them.
func (d *Decision) weigh(r Rules, n Now, due []time.Time, more bool, now time.Time) {
	var ready time.Time // that is on time
	if k := len(due) - 1; k >= 0 && now.Sub(due[k]) <= OnTime {
		ready, due = due[k], due[:k]
	}
	d.missed(r, due, more, !ready.IsZero())
	switch {
	case !ready.IsZero() && n.Running && r.Concurrency != api.CronReplace:
		d.State.Skipped++
		d.say("the run of %s is skipped: the one before goes on", said(r, ready))
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

// missed decides what becomes of times that have passed. instead: there is a run that is
// on time.
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

// said is a time as people read it.
func said(r Rules, at time.Time) string {
	return at.In(r.Schedule.Zone()).Format("2006-01-02 15:04 MST")
}

// begun says whether a run of a time was begun.
func begun(list []wire.Times, at time.Time) bool {
	return slices.ContainsFunc(list, func(s wire.Times) bool { return !at.Before(s.From) && !at.After(s.To) })
}

// cover adds a time to those that were begun.
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
		// Those two become one between which there is least.
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

// latest are the last most times at which s was due after one time and up to another; more
// says that there were others before them.
func latest(s *api.Schedule, after, until time.Time, most int) (list []time.Time, more bool) {
	first := s.Next(after)
	if first.IsZero() || first.After(until) {
		return nil, false
	}
	// How often it is due is not known: what is looked at doubles until it is enough.
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
