package jobs

import (
	"time"

	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/job"
	"github.com/verge-edge/verge/internal/wire"
)

// Timer is when jobs want to be looked at again although nothing happens.
type Timer struct {
	// at is that time, zero for none; made is when that was worked out. Both are of the
	// clock on the wall, as what is stored is.
	At, made time.Time
	// rest are the instances that wait for nothing but that time, or for others to end.
	Rest map[wire.InstanceID]bool
}

// Due says whether that time has come, or the clock was set back since.
func (l *Timer) Due(now time.Time) bool {
	now = now.Round(0)
	return !l.At.IsZero() && (!now.Before(l.At) || now.Before(l.made))
}

// Until is how long it is until then; false where there is nothing to wait for.
func (l *Timer) Until(now time.Time) (time.Duration, bool) {
	return max(0, l.At.Sub(now.Round(0))), !l.At.IsZero()
}

// NextTimer works out when jobs want to be looked at again.
func NextTimer(m *state.Model, now time.Time) Timer {
	now = now.Round(0)
	l := Timer{made: now, Rest: map[wire.InstanceID]bool{}}
	soonest := func(at time.Time) {
		if !at.IsZero() && (l.At.IsZero() || at.Before(l.At)) {
			l.At = at
		}
	}
	t := m.Begin()
	for key, rec := range Table.Rows(m.DB) {
		s := m.Shares[key]
		if s == nil || s.Spec.Job == nil {
			continue
		}
		all := Indexes(t, s, rec.Run.N)
		soonest(rec.Held)
		if GoesOn(&rec.Run) {
			_, wake := job.Judge(s.Spec.Job, rec.Run, all, s.Min, now)
			soonest(wake)
		}
		soonest(lookCron(m, s, rec, now))
		start, wake := job.Admit(job.Parallel(s), all, longest(s.Spec), now)
		if GoesOn(&rec.Run) && rec.Held.IsZero() {
			soonest(wake)
		} else {
			start = nil
		}
		due := map[int]bool{}
		for _, o := range start {
			due[o] = true
		}
		for _, x := range all {
			i := t.Inst(state.InstanceID(s.App, s.Service, x.Ordinal))
			if x.Phase != job.Runs && !due[x.Ordinal] {
				l.Rest[i.ID] = true
			}
			if (i.State == wire.Terminated || state.Halted(i)) && keeps(t, i, now) &&
				t.Ordered(i.Worker+"."+i.ID) != nil {
				soonest(i.Since.Add(s.Spec.Job.Keep.Std()))
			}
		}
	}
	return l
}
