package cluster

import (
	"time"

	"github.com/verge-edge/verge/internal/policy/job"
	"github.com/verge-edge/verge/internal/wire"
)

// jobLook is when jobs want to be looked at again although nothing happens.
type jobLook struct {
	// at is that time, zero for none; made is when that was worked out. Both are of the
	// clock on the wall, as what is stored is.
	at, made time.Time
	// rest are the instances that wait for nothing but that time, or for others to end.
	rest map[wire.InstanceID]bool
}

// due says whether that time has come, or the clock was set back since.
func (l *jobLook) due(now time.Time) bool {
	now = now.Round(0)
	return !l.at.IsZero() && (!now.Before(l.at) || now.Before(l.made))
}

// until is how long it is until then; false where there is nothing to wait for.
func (l *jobLook) until(now time.Time) (time.Duration, bool) {
	return max(0, l.at.Sub(now.Round(0))), !l.at.IsZero()
}

// lookJobs works out when jobs want to be looked at again.
func (m *model) lookJobs(now time.Time) jobLook {
	now = now.Round(0)
	l := jobLook{made: now, rest: map[wire.InstanceID]bool{}}
	soonest := func(at time.Time) {
		if !at.IsZero() && (l.at.IsZero() || at.Before(l.at)) {
			l.at = at
		}
	}
	t := m.begin()
	for key, rec := range m.jobs {
		s := m.Shares[key]
		if s == nil || s.Spec.Job == nil {
			continue
		}
		all := t.indexes(s, rec.Run.N)
		soonest(rec.Held)
		if goesOn(&rec.Run) {
			_, wake := job.Judge(s.Spec.Job, rec.Run, all, s.Min, now)
			soonest(wake)
		}
		soonest(m.lookCron(s, rec, now))
		start, wake := job.Admit(job.Parallel(s), all, longest(s.Spec), now)
		if goesOn(&rec.Run) && rec.Held.IsZero() {
			soonest(wake)
		} else {
			start = nil
		}
		due := map[int]bool{}
		for _, o := range start {
			due[o] = true
		}
		for _, x := range all {
			i := t.Inst(instanceID(s.App, s.Service, x.Ordinal))
			if x.Phase != job.Runs && !due[x.Ordinal] {
				l.rest[i.ID] = true
			}
			if (i.State == wire.Terminated || halted(i)) && t.keeps(i, now) && t.Ordered(i.Worker+"."+i.ID) != nil {
				soonest(i.Since.Add(s.Spec.Job.Keep.Std()))
			}
		}
	}
	return l
}
