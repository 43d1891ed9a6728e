package cluster

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/cron"
	"github.com/verge-edge/verge/internal/policy/job"
	"github.com/verge-edge/verge/internal/wire"
)

// keyUpJob + app.service: wire.JobReport, for the root.
const keyUpJob = state.KeyUp + wire.ReportedJob

// A job with a schedule has one cluster, which begins its runs by itself. How far it is with
// the schedule is in the record of the job, and stored in the write in which a run begins:
// whatever happens to this process, a time has at most one run.

// schedules are those that were read already; reading one looks at files.
type schedules struct {
	mu   sync.Mutex
	list map[string]*api.Schedule
}

// maxSchedules that are kept; where there are more, all are read again.
const maxSchedules = 10_000

// of a service; the error says why it cannot be read here, which may be an older version.
func (s *schedules) of(c *api.Cron) (*api.Schedule, error) {
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

// cronRules are the rules of a share as the decider wants them.
func (m *model) cronRules(s *wire.Share) (cron.Rules, error) {
	sched, err := m.schedules.of(s.Spec.Cron)
	return cron.Rules{Schedule: sched, Concurrency: s.Spec.Cron.Concurrency, Missed: s.Spec.Cron.Missed}, err
}

// goesOn says whether there is a run that has not ended.
func goesOn(r *wire.JobRun) bool { return r.N > 0 && r.Outcome == "" }

// dueRun is the run that is to begin now of a job with a schedule; nil for none. rec is brought
// up to date with what has been decided.
func (t *tx) dueRun(s *wire.Share, rec *jobRecord, now time.Time) *wire.JobRun {
	if t.asksRoot(s, rec, now) {
		return nil
	}
	key, rule, start := s.App+"."+s.Service, s.Spec.Cron.Rule(), s.Cron
	fresh := t.fresh(rec, start)
	switch {
	case fresh && start.Rule == rule && !start.After.IsZero() && !newer(rec.Cron, start, now):
		c := cron.TakenOver(rule, start.After, start.Pending, now)
		rec.Cron = &c
	case rec.Cron == nil || rec.Cron.Rule != rule:
		c := cron.Start(rule, rec.Cron, now)
		rec.Cron = &c
	}
	if fresh && start.N > rec.Run.N && !goesOn(&rec.Run) {
		// What became of it was told by the cluster that had it.
		rec.Run = wire.JobRun{N: start.N, Restarted: start.Restarted, Outcome: wire.JobReplaced}
	}
	if start != nil && start.Elsewhere {
		return nil
	}
	running := goesOn(&rec.Run)
	if r := s.Restart; r != nil && r.N > rec.Run.Restarted && (!running || s.Spec.Cron.Concurrency == api.CronReplace) {
		return &wire.JobRun{Restarted: r.N, Asked: wanted(*r)}
	}
	rules, err := t.m.cronRules(s)
	if err != nil {
		return nil // its view says so
	}
	d := cron.Decide(rules, *rec.Cron, cron.Now{Running: running, Suspended: s.Spec.Job.Suspend, At: now})
	for _, said := range d.Said {
		t.Event("service/"+key, "%s", said)
	}
	if n := d.State.Missed - rec.Cron.Missed; n > 0 {
		t.Tally(s.App, wire.Tally{Missed: n})
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
func (t *tx) fresh(rec *jobRecord, start *wire.CronStart) bool {
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
	return cut(by, maxWords)
}

// stopRun ends the run of a job that somebody wants to end. A mark that was made before the
// run began is about another.
func (t *tx) stopRun(s *wire.Share, rec *jobRecord, now time.Time) {
	r := s.Stop
	if r == nil || r.N <= rec.Stopped {
		return
	}
	rec.Stopped = r.N
	if goesOn(&rec.Run) && r.N > rec.Run.Restarted && !rec.Run.Began.After(r.At) {
		t.endRun(s, rec, wire.JobStopped, "stopped by "+wanted(*r), now)
	}
}

// endRun notes how a run ended.
func (t *tx) endRun(s *wire.Share, rec *jobRecord, outcome, why string, now time.Time) {
	rec.Run.Outcome, rec.Run.Why, rec.Run.Ended = outcome, why, now.Round(0)
	for _, x := range t.indexes(s, rec.Run.N) {
		switch x.Phase {
		case job.Completed:
			rec.Run.Completed++
		case job.Failed:
			rec.Run.Failed++
		}
	}
	t.Event("service/"+s.App+"."+s.Service, "run %d of the job is %s: %s", rec.Run.N, outcome, why)
	t.tallyRun(s.App, outcome)
}

// tallyRun counts a run that has ended.
func (t *tx) tallyRun(app, outcome string) {
	switch outcome {
	case wire.JobComplete:
		t.Tally(app, wire.Tally{Completed: 1})
	case wire.JobFailed:
		t.Tally(app, wire.Tally{Failed: 1})
	}
}

// cronView adds to a view what is known of a schedule and of the runs.
func (m *model) cronView(v *wire.JobView, s *wire.Share, rec *jobRecord) {
	r := m.upJobs[s.App+"."+s.Service]
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

// cronMessage is what keeps a schedule from being followed, "" for nothing.
func (m *model) cronMessage(s *wire.Share) string {
	if s.Cron != nil && s.Cron.Elsewhere {
		return "another cluster has its schedule"
	}
	if rec := m.jobs[s.App+"."+s.Service]; rec != nil && !rec.Held.IsZero() {
		return "the cluster was restored from a backup, and asks the root which runs began since that was made"
	}
	if _, err := m.cronRules(s); err != nil {
		return err.Error()
	}
	return ""
}

// nextRun is when a job is due next; zero for no time.
func (m *model) nextRun(s *wire.Share, rec *jobRecord, now time.Time) time.Time {
	if s.Spec.Cron == nil || rec.Cron == nil || s.Spec.Job.Suspend || s.Cron != nil && s.Cron.Elsewhere {
		return time.Time{}
	}
	rules, err := m.cronRules(s)
	if err != nil {
		return time.Time{}
	}
	return rules.Schedule.Next(now).UTC()
}

// lookCron is when to look at a schedule again; zero for no need. One that is suspended is
// looked at as well: its times are not missed.
func (m *model) lookCron(s *wire.Share, rec *jobRecord, now time.Time) time.Time {
	if s.Spec.Cron == nil || rec.Cron == nil || s.Cron != nil && s.Cron.Elsewhere {
		return time.Time{}
	}
	rules, err := m.cronRules(s)
	if err != nil {
		return time.Time{}
	}
	return rules.Schedule.Next(now).Round(0)
}

// reportJobs derives what the root is told of the runs of jobs.
func (t *tx) reportJobs(now time.Time) {
	want := map[string]*wire.JobReport{}
	for key, s := range t.m.Shares {
		rec := t.job(key)
		if s.Spec.Job == nil || rec == nil {
			continue
		}
		r := &wire.JobReport{
			V: wire.Version, App: s.App, Service: s.Service, Run: rec.Run, Past: slices.Clone(rec.Past), Stopped: rec.Stopped,
			Cron: rec.Cron, Next: t.m.nextRun(s, rec, now), Epoch: rec.Epoch,
		}
		if !rec.Held.IsZero() {
			r.Restored = rec.Recovered
		}
		want[key] = r
	}
	diff(t.m.upJobs, want, t.upJobs)
}
