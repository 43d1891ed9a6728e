package root

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/cron"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// A schedule is given to one cluster, with all indexes of its job: that one begins the runs
// by itself. What it said last is stored, so that another one can go on where it was. Two
// clusters begin a run of the same time only if one cannot be heard any more and goes on.

// keySchedule + app.service: schedule.
const keySchedule = "cron."

// schedule is what a root remembers of one.
type schedule struct {
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

// takeJob takes over what a cluster says of the runs of a job, if it is that; ok says
// whether it is.
func (cl *cluster) takeJob(ch wire.Change) (ok bool, err error) {
	return takeReport(&cl.jobs, ch, wire.ReportedJob, maxJobs, "the runs of too many jobs are kept of it already", (*wire.JobReport).Clamp)
}

// schedule of a service as this tx sees it; nil for none.
func (t *tx) schedule(key string) *schedule {
	if s, ok := t.schedules[key]; ok {
		return s
	}
	return t.m.schedules[key]
}

// scheduled brings what is remembered of schedules up to date: who has them, and what that
// one said.
func (t *tx) scheduled(now time.Time) {
	here := map[string]bool{}
	for _, name := range records.SortedKeys(t.m.apps) {
		for _, svc := range t.m.apps[name].Spec.ServiceNames() {
			key := name + "." + svc
			if t.m.apps[name].Spec.Services[svc].Cron == nil {
				continue
			}
			here[key] = true
			next := schedule{V: wire.Version, App: name, Service: svc}
			if old := t.m.schedules[key]; old != nil {
				next = *old
			}
			if c := t.m.clusters[next.Owner]; c != nil && c.jobs[key] != nil {
				switch rep := c.jobs[key]; {
				case next.forgotten(rep):
					next.Start = giveAgain(&next, rep.Restored, t.m.apps[name].Restarts[svc].N, now)
					t.event("service/"+key, "cluster %s was restored from a backup: it is told what it was heard to have begun, up to run %d", next.Owner, next.Start.N)
				case rep.Epoch == next.Start.Epoch:
					next.Last = *rep
					next.Last.Past, next.Last.Next = nil, time.Time{}
				}
			}
			if owner := t.ownerOf(name, svc); owner != "" && owner != next.Owner {
				if next.Owner != "" {
					t.event("service/"+key, "cluster %s has its schedule now, %s had it", owner, next.Owner)
				}
				next.Owner, next.Start = owner, handOver(&next, t.m.apps[name].Spec.Services[svc].Cron.Missed, t.m.apps[name].Restarts[svc].N, now)
			}
			if old := t.m.schedules[key]; old == nil || !records.Same(old, &next) {
				t.schedules[key] = &next
			}
		}
	}
	for key := range t.m.schedules {
		if !here[key] {
			t.schedules[key] = nil
		}
	}
}

// forgotten says whether a report of the owner is of one that does not know any more what it
// has begun, since it was restored from a backup: it asks for that, or (of a version that
// does not) its runs count from less than those that it was heard of.
func (s *schedule) forgotten(rep *wire.JobReport) bool {
	if !rep.Restored.IsZero() {
		return !rep.Restored.Equal(s.Start.Restored)
	}
	return rep.Epoch == s.Start.Epoch && s.Last.Epoch == rep.Epoch && rep.Run.N < s.Last.Run.N
}

// giveAgain is with what the owner of a schedule goes on that has forgotten what it has begun:
// what was heard of it last, or else what it was given before. As in handOver, nothing that is
// said of times to come, or of marks that were not given, binds it.
func giveAgain(s *schedule, restored time.Time, marked uint64, now time.Time) (out wire.CronStart) {
	out = s.Start
	if c := s.Last.Cron; c != nil && s.Last.Epoch == s.Start.Epoch {
		out = wire.CronStart{Rule: c.Rule, After: c.After, Pending: slices.Clone(c.Pending), N: s.Last.Run.N, Restarted: s.Last.Run.Restarted}
		if run := s.Last.Run; run.N > 0 && !run.Began.IsZero() {
			run.Restarted = min(run.Restarted, marked)
			out.Run = &run
		}
	}
	out.Epoch, out.Restored, out.Restarted = s.Start.Epoch+1, restored, min(out.Restarted, marked)
	out.After, out.Pending = cron.Bound(out.After, out.Pending, now)
	return out
}

// ownerOf is the cluster that has the instances of a job with a schedule; "" for none, also
// where they are only in one that is lost.
func (t *tx) ownerOf(app, svc string) string {
	for _, i := range t.of(app, svc) {
		if i.Cluster != "" && !i.Draining && !i.Unreachable {
			return i.Cluster
		}
	}
	return ""
}

// handOver is with what another cluster begins. A run of which nobody knows how it ended is
// missed, and made up for if the rest of those are. What that one said of times to come, its
// clock being ahead or for whatever reason, does not bind the next one; nor does it bind it to
// have heeded more marks than were given (marked): runs that are asked for would not begin.
func handOver(s *schedule, missed string, marked uint64, now time.Time) (out wire.CronStart) {
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

// cronShares completes the shares of jobs: what is to end, and who has a schedule.
func (t *tx) cronShares(want map[string]*wire.Share) {
	for key, s := range want {
		if s.Spec.Job == nil {
			continue
		}
		app := t.m.apps[s.App]
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
		if sched := t.schedule(s.App + "." + s.Service); sched != nil {
			if cluster, _, _ := strings.Cut(key, "."); cluster == sched.Owner {
				start := sched.Start
				s.Cron = &start
			}
		}
	}
}

// together lets a decision about a job with a schedule be one for all its indexes: the
// cluster that has some of them gets the others, else the first that can take it.
func (t *tx) together(d *place.Decision, list []*wire.Instance) {
	owner := t.ownerOf(list[0].App, list[0].Service)
	if owner == "" && len(d.Shares) > 0 {
		owner = d.Shares[0].Cluster
	}
	if owner == "" {
		d.Unplaced = len(list)
		return
	}
	d.Shares, d.Unplaced = []place.ShareOut{{Cluster: owner, Count: len(list)}}, 0
}

// atWork says whether anything of a job with a schedule is being done in a cluster, so that
// it stays there.
func (t *tx) atWork(app, svc, cluster string) bool {
	c := t.m.clusters[cluster]
	if c == nil {
		return false
	}
	r := c.jobs[app+"."+svc]
	if r == nil || r.Run.Outcome != "" {
		return false
	}
	return slices.ContainsFunc(t.of(app, svc), func(i *wire.Instance) bool {
		rep := c.seen[i.ID]
		return i.Cluster == cluster && rep != nil && (rep.State == wire.Running || rep.State == wire.WorkerScheduled || rep.State == wire.Terminated)
	})
}

// cronView is how far a job with a schedule is, and what keeps it from being as promised, ""
// for nothing.
func (m *model) cronView(app *wire.Application, name string, all []*wire.Instance) (v wire.JobView, message string) {
	spec, key := app.Spec.Services[name], app.Name+"."+name
	v = wire.JobView{Completions: spec.Job.Completions, Suspended: spec.Job.Suspend, Schedule: spec.Cron.Schedule, Zone: spec.Cron.Zone}
	sched := m.schedules[key]
	var c *cluster
	if sched != nil {
		c = m.clusters[sched.Owner]
	}
	reason := ""
	for _, i := range all {
		if cur := m.merged(i); reason == "" && !i.Draining {
			reason = notYet(&cur, app.Revision)
		}
	}
	switch {
	case c == nil || !slices.ContainsFunc(all, func(i *wire.Instance) bool { return i.Cluster == sched.Owner && !i.Draining }):
		if reason == "" {
			reason = "no cluster has its schedule yet"
		}
		return v, reason
	case c.suspect:
		message = fmt.Sprintf("cluster %s, which has its schedule, is away", sched.Owner)
	case c.jobs[key] == nil || c.jobs[key].Epoch != sched.Start.Epoch:
		return v, fmt.Sprintf("cluster %s has not taken its schedule over yet", sched.Owner)
	}
	r := &sched.Last
	if rep := c.jobs[key]; rep != nil {
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
		rep := c.seen[i.ID]
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
	if message == "" && v.Completed+v.Active+v.Failed < min(spec.Job.Parallelism, spec.Job.Completions) && reason != "" {
		message = reason
	}
	return v, message
}

// stopped says whether the latest wish about a job is that it ends.
func stopped(app *wire.Application, service string) bool {
	r, ok := app.Stops[service]
	return ok && r.N > app.Restarts[service].N
}

// stops are the marks of app with a new one for a service, without those of services that
// are gone.
func stops(app *wire.Application, service string, r wire.Restart) map[string]wire.Restart {
	out := map[string]wire.Restart{}
	maps.Copy(out, app.Stops)
	maps.DeleteFunc(out, func(svc string, _ wire.Restart) bool { return app.Spec.Services[svc] == nil })
	out[service] = r
	return out
}
