package jobs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/cron"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/placement"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// A schedule is given to one cluster, with all indexes of its job: that one begins the runs
// by itself. What it said last is stored, so that another one can go on where it was. Two
// clusters begin a run of the same time only if one cannot be heard any more and goes on.

// Key + app.service: schedule.
const Key = "cron."

// Schedule is what a root remembers of one.
type Schedule struct {
	V       int    `json:"v"`
	App     string `json:"app"`
	Service string `json:"service"`
	// Owner is the cluster that has it, or had it last, and Start with what it began.
	Owner string         `json:"owner"`
	Start wire.CronStart `json:"start"`
	// Last is what the owner said of it, without the runs that are past.
	Last wire.JobReport `json:"last"`
}

// maxJobs bounds of how many jobs is kept what one cluster says.
const maxJobs = 20_000

// Take takes over what a cluster says of the runs of a job, if it is that; ok says
// whether it is.
func Take(cl *state.Cluster, ch wire.Change) (ok bool, err error) {
	return state.TakeReport(&cl.Jobs, ch, wire.ReportedJob, maxJobs,
		"the runs of too many jobs are kept of it already", (*wire.JobReport).Clamp)
}

// UpdateSchedules brings what is remembered of schedules up to date: who has them, and what that
// one said.
func UpdateSchedules(t *state.Tx, now time.Time) {
	here := map[string]bool{}
	for _, name := range records.SortedKeys(t.Model.Apps) {
		for _, svc := range t.Model.Apps[name].Spec.ServiceNames() {
			key := name + "." + svc
			if t.Model.Apps[name].Spec.Services[svc].Cron == nil {
				continue
			}
			here[key] = true
			next := Schedule{V: wire.Version, App: name, Service: svc}
			if old := Table.Rows(t.Model.DB)[key]; old != nil {
				next = *old
			}
			if c := t.Model.Clusters[next.Owner]; c != nil && c.Jobs[key] != nil {
				switch rep := c.Jobs[key]; {
				case next.forgotten(rep):
					next.Start = GiveAgain(&next, rep.Restored, t.Model.Apps[name].Restarts[svc].N, now)
					t.Event(event.JobRestored, key,
						"cluster %s was restored from a backup: it is told what it was heard to have begun, up "+
							"to run %d", next.Owner, next.Start.N)
				case rep.Epoch == next.Start.Epoch:
					next.Last = *rep
					next.Last.Past, next.Last.Next = nil, time.Time{}
				}
			}
			if owner := placement.OwnerOf(t, name, svc); owner != "" && owner != next.Owner {
				if next.Owner != "" {
					t.Event(event.JobScheduleGone, key, "cluster %s has its schedule now, %s had it", owner, next.Owner)
				}
				next.Owner, next.Start = owner,
					HandOver(&next, t.Model.Apps[name].Spec.Services[svc].Cron.Missed,
						t.Model.Apps[name].Restarts[svc].N, now)
			}
			Table.Put(t.Rows, key, &next)
		}
	}
	for key := range Table.Rows(t.Model.DB) {
		if !here[key] {
			Table.Put(t.Rows, key, nil)
		}
	}
}

// forgotten says whether a report of the owner is of one that does not know any more what it
// has begun, since it was restored from a backup: it asks for that, or (of a version that
// does not) its runs count from less than those that it was heard of.
func (s *Schedule) forgotten(rep *wire.JobReport) bool {
	if !rep.Restored.IsZero() {
		return !rep.Restored.Equal(s.Start.Restored)
	}
	return rep.Epoch == s.Start.Epoch && s.Last.Epoch == rep.Epoch && rep.Run.N < s.Last.Run.N
}

// GiveAgain is with what the owner of a schedule goes on that has forgotten what it has begun:
// what was heard of it last, or else what it was given before. As in HandOver, nothing that is
// said of times to come, or of marks that were not given, binds it.
func GiveAgain(s *Schedule, restored time.Time, marked uint64, now time.Time) (out wire.CronStart) {
	out = s.Start
	if c := s.Last.Cron; c != nil && s.Last.Epoch == s.Start.Epoch {
		out = wire.CronStart{Rule: c.Rule, After: c.After, Pending: slices.Clone(c.Pending), N: s.Last.Run.N,
			Restarted: s.Last.Run.Restarted}
		if run := s.Last.Run; run.N > 0 && !run.Began.IsZero() {
			run.Restarted = min(run.Restarted, marked)
			out.Run = &run
		}
	}
	out.Epoch, out.Restored, out.Restarted = s.Start.Epoch+1, restored, min(out.Restarted, marked)
	out.After, out.Pending = cron.Bound(out.After, out.Pending, now)
	return out
}

// HandOver is with what another cluster begins. A run of which nobody knows how it ended is
// missed, and made up for if the rest of those are. What that one said of times to come, its
// clock being ahead or for whatever reason, does not bind the next one; nor does it bind it to
// have heeded more marks than were given (marked): runs that are asked for would not begin.
func HandOver(s *Schedule, missed string, marked uint64, now time.Time) (out wire.CronStart) {
	defer func() {
		out.After, out.Pending = cron.Bound(out.After, out.Pending, now)
		out.Restarted = min(out.Restarted, marked)
	}()
	out = wire.CronStart{Epoch: s.Start.Epoch + 1, N: s.Last.Run.N, Restarted: s.Last.Run.Restarted}
	if out.N == 0 { // that one was never heard
		out.N, out.Restarted = s.Start.N, s.Start.Restarted
	}
	c := s.Last.Cron
	if c == nil {
		out.Rule, out.After, out.Pending = s.Start.Rule, s.Start.After, s.Start.Pending
		return out
	}
	out.Rule, out.After, out.Pending = c.Rule, c.After, slices.Clone(c.Pending)
	if r := s.Last.Run; r.N > 0 && r.Outcome == "" {
		switch {
		case r.Scheduled.IsZero():
			out.Restarted = max(1, out.Restarted) - 1 // somebody asked for it, and still wants it
		case missed != "skip":
			out.Pending = slices.Insert(out.Pending, 0, r.Scheduled)
		}
	}
	return out
}

// ShareSchedules completes the shares of jobs: what is to end, and who has a schedule.
func ShareSchedules(t *state.Tx, want map[string]*wire.Share) {
	for key, s := range want {
		if s.Spec.Job == nil {
			continue
		}
		app := t.Model.Apps[s.App]
		if app == nil {
			continue
		}
		if r, ok := app.Stops[s.Service]; ok {
			s.Stop = &r
		}
		if s.Spec.Cron == nil {
			continue
		}
		s.Cron = &wire.CronStart{Elsewhere: true}
		if sched := Table.Get(t.Rows, s.App+"."+s.Service); sched != nil {
			if cluster, _, _ := strings.Cut(key, "."); cluster == sched.Owner {
				start := sched.Start
				s.Cron = &start
			}
		}
	}
}

// AtWork says whether anything of a job with a schedule is being done in a cluster, so that
// it stays there.
func AtWork(t *state.Tx, app, svc, cluster string) bool {
	c := t.Model.Clusters[cluster]
	if c == nil {
		return false
	}
	r := c.Jobs[app+"."+svc]
	if r == nil || r.Run.Outcome != "" {
		return false
	}
	return slices.ContainsFunc(t.Of(app, svc), func(i *wire.Instance) bool {
		rep := c.Seen[i.ID]
		return i.Cluster == cluster && rep != nil &&
			(rep.State == wire.Running || rep.State == wire.WorkerScheduled || rep.State == wire.Terminated)
	})
}

// cronView is how far a job with a schedule is, and what keeps it from being as promised, ""
// for nothing.
func cronView(m *state.Model, app *record.Application, name string, all []*wire.Instance) (v apiv1.JobView,
	message string) {
	spec, key := app.Spec.Services[name], app.Name+"."+name
	v = apiv1.JobView{Completions: spec.Job.Completions, Suspended: spec.Job.Suspend, Schedule: spec.Cron.Schedule,
		Zone: spec.Cron.Zone}
	sched := Table.Rows(m.DB)[key]
	var c *state.Cluster
	if sched != nil {
		c = m.Clusters[sched.Owner]
	}
	reason := ""
	for _, i := range all {
		if cur := m.Merged(i); reason == "" && !i.Draining {
			reason = state.NotYet(&cur, app.Revision)
		}
	}
	switch {
	case c == nil || !slices.ContainsFunc(all,
		func(i *wire.Instance) bool { return i.Cluster == sched.Owner && !i.Draining }):
		if reason == "" {
			reason = "no cluster has its schedule yet"
		}
		return v, reason
	case c.Suspect:
		message = fmt.Sprintf("cluster %s, which has its schedule, is away", sched.Owner)
	case c.Jobs[key] == nil || c.Jobs[key].Epoch != sched.Start.Epoch:
		return v, fmt.Sprintf("cluster %s has not taken its schedule over yet", sched.Owner)
	}
	r := &sched.Last
	if rep := c.Jobs[key]; rep != nil {
		r = rep
	}
	v.Run, v.Runs, v.Next = r.Run.N, r.Runs(sched.Owner), r.Next
	if r.Cron != nil {
		v.Missed, v.Skipped = r.Cron.Missed, r.Cron.Skipped
	}
	switch {
	case app.Restarts[name].N > r.Run.Restarted:
		v.Why = "another run has been asked for"
		return v, message
	case r.Run.N == 0 || r.Run.Began.IsZero():
		return v, message
	case r.Run.Outcome != "":
		v.Outcome, v.Why, v.Completed, v.Failed = r.Run.Outcome, r.Run.Why, r.Run.Completed, r.Run.Failed
		return v, message
	}
	for _, i := range all {
		rep := c.Seen[i.ID]
		switch {
		case rep == nil || i.Cluster != c.Name || rep.Job == nil || rep.Job.Run != r.Run.N:
		case rep.Completed():
			v.Completed++
		case rep.Job.Over != "" && (rep.State == wire.Failed || rep.State == wire.Terminated):
			v.Failed++
		case rep.State == wire.Running || rep.State == wire.WorkerScheduled:
			v.Active++
		}
	}
	if message == "" && v.Completed+v.Active+v.Failed < min(spec.Job.Parallelism, spec.Job.Completions) &&
		reason != "" {
		message = reason
	}
	return v, message
}

// Stopped says whether the latest wish about a job is that it ends.
func Stopped(app *record.Application, service string) bool {
	r, ok := app.Stops[service]
	return ok && r.N > app.Restarts[service].N
}

// Stops are the marks of app with a new one for a service, without those of services that
// are gone.
func Stops(app *record.Application, service string, r wire.Restart) map[string]wire.Restart {
	out := map[string]wire.Restart{}
	maps.Copy(out, app.Stops)
	maps.DeleteFunc(out, func(svc string, _ wire.Restart) bool { return app.Spec.Services[svc] == nil })
	out[service] = r
	return out
}
