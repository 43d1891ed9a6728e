package jobs

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/cron"
	"github.com/verge-edge/verge/internal/policy/job"
	"github.com/verge-edge/verge/internal/wire"
)

// KeyUp + app.service: wire.JobReport, for the root.
const KeyUp = state.KeyUp + wire.ReportedJob

// A job with a schedule has one cluster, which begins its runs by itself. How far it is with
// the schedule is in the record of the job, and stored in the write in which a run begins:
// whatever happens to this process, a time has at most one run.

// Schedules are those that were read already; reading one looks at files.
type Schedules struct {
	mu   sync.Mutex
	list map[string]*api.Schedule
}

// maxSchedules that are kept; where there are more, all are read again.
const maxSchedules = 10_000

// of a service; the error says why it cannot be read here, which may be an older version.
func (s *Schedules) of(c *api.Cron) (*api.Schedule, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sched := s.list[c.Rule()]; sched != nil {
		return sched, nil
	}
	sched, err := api.ParseSchedule(c.Schedule, c.Zone)
	if err != nil {
		return nil, fmt.Errorf("its schedule %q in zone %q cannot be followed here: %w", c.Schedule, c.Zone, err)
	}
	if s.list == nil || len(s.list) >= maxSchedules {
		s.list = map[string]*api.Schedule{}
	}
	s.list[c.Rule()] = sched
	return sched, nil
}

// CronRules are the rules of a share as the decider wants them.
func CronRules(m *state.Model, s *wire.Share) (cron.Rules, error) {
	sched, err := Memory(m).Schedules.of(s.Spec.Cron)
	return cron.Rules{Schedule: sched, Concurrency: s.Spec.Cron.Concurrency, Missed: s.Spec.Cron.Missed}, err
}

// GoesOn says whether there is a run that has not ended.
func GoesOn(r *wire.JobRun) bool { return r.N > 0 && r.Outcome == "" }

// dueRun is the run that is to begin now of a job with a schedule; nil for none. rec is brought
// up to date with what has been decided.
func dueRun(t *state.Tx, s *wire.Share, rec *Record, now time.Time) *wire.JobRun {
	if asksRoot(t, s, rec, now) {
		return nil
	}
	key, rule, start := s.App+"."+s.Service, s.Spec.Cron.Rule(), s.Cron
	fresh := fresh(rec, start)
	switch {
	case fresh && start.Rule == rule && !start.After.IsZero() && !newer(rec.Cron, start, now):
		c := cron.TakenOver(rule, start.After, start.Pending, now)
		rec.Cron = &c
	case rec.Cron == nil || rec.Cron.Rule != rule:
		c := cron.Start(rule, rec.Cron, now)
		rec.Cron = &c
	}
	if fresh && start.N > rec.Run.N && !GoesOn(&rec.Run) {
		// What became of it was told by the cluster that had it.
		rec.Run = wire.JobRun{N: start.N, Restarted: start.Restarted, Outcome: wire.JobReplaced}
	}
	if start != nil && start.Elsewhere {
		return nil
	}
	running := GoesOn(&rec.Run)
	if r := s.Restart; r != nil && r.N > rec.Run.Restarted && (!running || s.Spec.Cron.Concurrency == api.CronReplace) {
		return &wire.JobRun{Restarted: r.N, Asked: wanted(*r)}
	}
	rules, err := CronRules(t.Model, s)
	if err != nil {
		return nil // its view says so
	}
	d := cron.Decide(rules, *rec.Cron, cron.Now{Running: running, Suspended: s.Spec.Job.Suspend, At: now})
	for _, said := range d.Said {
		t.Event(event.JobTimes, key, "%s", said)
	}
	if n := d.State.Missed - rec.Cron.Missed; n > 0 {
		t.Count(s.App, wire.Counters{Missed: n})
	}
	rec.Cron = &d.State
	if d.Begin.IsZero() {
		return nil
	}
	return &wire.JobRun{Restarted: rec.Run.Restarted, Scheduled: d.Begin}
}

// fresh says whether a schedule is given to this cluster that another one had meanwhile, and
// notes with which epoch. A root that was restored from a backup counts from a lower one:
// what it knows of the schedule is older than what has become of it here, so only its number
// is taken.
func fresh(rec *Record, start *wire.CronStart) bool {
	switch {
	case start == nil:
		return false
	case start.Elsewhere: // whatever is given next counts
		rec.Epoch = 0
		return false
	}
	was := rec.Epoch
	rec.Epoch = start.Epoch
	return start.Epoch > was
}

// newer says whether it was decided here for later times than those that a schedule is given
// with: this cluster had it since, and whoever gives it does not know of that.
func newer(c *wire.CronState, start *wire.CronStart, now time.Time) bool {
	return c != nil && c.Rule == start.Rule && c.After.After(start.After) && !c.After.After(now)
}

// wanted says who asked for something, and why.
func wanted(r wire.Restart) string {
	by := "somebody"
	if r.By != "" {
		by = r.By
	}
	if r.Why != "" {
		by += ": " + r.Why
	}
	return state.Cut(by, state.MaxWords)
}

// stopRun ends the run of a job that somebody wants to end. A mark that was made before the
// run began is about another.
func stopRun(t *state.Tx, s *wire.Share, rec *Record, now time.Time) {
	r := s.Stop
	if r == nil || r.N <= rec.Stopped {
		return
	}
	rec.Stopped = r.N
	if GoesOn(&rec.Run) && r.N > rec.Run.Restarted && !rec.Run.Began.After(r.At) {
		endRun(t, s, rec, wire.JobStopped, "stopped by "+wanted(*r), now)
	}
}

// endRun notes how a run ended.
func endRun(t *state.Tx, s *wire.Share, rec *Record, outcome, why string, now time.Time) {
	rec.Run.Outcome, rec.Run.Why, rec.Run.Ended = outcome, why, now.Round(0)
	for _, x := range Indexes(t, s, rec.Run.N) {
		switch x.Phase {
		case job.Completed:
			rec.Run.Completed++
		case job.Failed:
			rec.Run.Failed++
		}
	}
	t.Event(event.OfRun(outcome), s.App+"."+s.Service, "run %d of the job is %s: %s", rec.Run.N, outcome, why)
	tallyRun(t, s.App, outcome)
}

// tallyRun counts a run that has ended.
func tallyRun(t *state.Tx, app, outcome string) {
	switch outcome {
	case wire.JobComplete:
		t.Count(app, wire.Counters{Completed: 1})
	case wire.JobFailed:
		t.Count(app, wire.Counters{Failed: 1})
	}
}

// cronView adds to a view what is known of a schedule and of the runs.
func cronView(m *state.Model, v *apiv1.JobView, s *wire.Share, rec *Record) {
	r := UpTable.Rows(m.DB)[s.App+"."+s.Service]
	if r == nil {
		return
	}
	v.Runs = r.Runs(m.Name)
	if c := s.Spec.Cron; c != nil {
		v.Schedule, v.Zone, v.Next = c.Schedule, c.Zone, r.Next
		if rec.Cron != nil {
			v.Missed, v.Skipped = rec.Cron.Missed, rec.Cron.Skipped
		}
	}
}

// CronMessage is what keeps a schedule from being followed, "" for nothing.
func CronMessage(m *state.Model, s *wire.Share) string {
	if s.Cron != nil && s.Cron.Elsewhere {
		return "another cluster has its schedule"
	}
	if rec := Table.Rows(m.DB)[s.App+"."+s.Service]; rec != nil && !rec.Held.IsZero() {
		return "the cluster was restored from a backup, and asks the root which runs began since that was made"
	}
	if _, err := CronRules(m, s); err != nil {
		return err.Error()
	}
	return ""
}

// nextRun is when a job is due next; zero for no time.
func nextRun(m *state.Model, s *wire.Share, rec *Record, now time.Time) time.Time {
	if s.Spec.Cron == nil || rec.Cron == nil || s.Spec.Job.Suspend || s.Cron != nil && s.Cron.Elsewhere {
		return time.Time{}
	}
	rules, err := CronRules(m, s)
	if err != nil {
		return time.Time{}
	}
	return rules.Schedule.Next(now).UTC()
}

// lookCron is when to look at a schedule again; zero for no need. One that is suspended is
// looked at as well: its times are not missed.
func lookCron(m *state.Model, s *wire.Share, rec *Record, now time.Time) time.Time {
	if s.Spec.Cron == nil || rec.Cron == nil || s.Cron != nil && s.Cron.Elsewhere {
		return time.Time{}
	}
	rules, err := CronRules(m, s)
	if err != nil {
		return time.Time{}
	}
	return rules.Schedule.Next(now).Round(0)
}

// Report derives what the root is told of the runs of jobs.
func Report(t *state.Tx, now time.Time) {
	want := map[string]*wire.JobReport{}
	for key, s := range t.Model.Shares {
		rec := Table.Get(t.Rows, key)
		if s.Spec.Job == nil || rec == nil {
			continue
		}
		r := &wire.JobReport{
			V: wire.Version, App: s.App, Service: s.Service, Run: rec.Run, Past: slices.Clone(rec.Past),
			Stopped: rec.Stopped,
			Cron:    rec.Cron, Next: nextRun(t.Model, s, rec, now), Epoch: rec.Epoch,
		}
		if !rec.Held.IsZero() {
			r.Restored = rec.Recovered
		}
		want[key] = r
	}
	localedit.Diff(UpTable.Rows(t.Model.DB), want, UpTable.Changes(t.Rows))
}
