package root

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/job"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// A job has an instance for each of its indexes. The root divides them among clusters,
// and how many of them may run at a time; the clusters run them by themselves. That an
// index has completed is stored here as well: its cluster may be lost later.

// jobRule is what tells whether an index of a job has completed: which program, and which
// restart was asked for last.
type jobRule struct {
	program string
	app     *wire.Application
	service string
}

func ruleOf(app *wire.Application, service string) jobRule {
	return jobRule{app.Spec.Services[service].ProgramID(), app, service}
}

// counts says whether what an instance was started for is what is wanted now.
func (r jobRule) counts(i *wire.Instance) bool {
	n := r.app.Restarts[r.service].N
	if one, ok := r.app.Restarts[fmt.Sprintf("%s.%d", r.service, i.Ordinal)]; ok {
		n = max(n, one.N)
	}
	return i.Program == r.program && i.Restarted >= n
}

// done says whether the index of an instance has completed, as it is stored here. Of a job
// with a schedule that is not: there will be other runs.
func (r jobRule) done(i *wire.Instance) bool {
	return r.app.Spec.Services[r.service].Cron == nil && i.Job != nil && !i.Job.Completed.IsZero() && r.counts(i)
}

// indexOf an instance of a job.
func indexOf(i *wire.Instance) int {
	if i.Job != nil {
		return i.Job.Index
	}
	return i.Ordinal
}

// noteJob stores which indexes of a job have completed, as their clusters say.
func (t *tx) noteJob(app *wire.Application, svc string, now time.Time) {
	if app.Spec.Services[svc].Cron != nil {
		return
	}
	rule := ruleOf(app, svc)
	for _, i := range t.of(app.Name, svc) {
		c := t.m.clusters[i.Cluster]
		if c == nil || rule.done(i) {
			continue
		}
		rep := c.seen[i.ID]
		if rep == nil || !rep.Completed() || !rule.counts(&rep.Instance) {
			continue
		}
		next := *i
		at := rep.Since
		if at.IsZero() {
			at = now
		}
		next.Job = &wire.JobTry{Index: indexOf(i), Completed: at.Round(0)}
		next.Program, next.Restarted = rep.Program, rep.Restarted
		t.put(next)
	}
}

// fulfilJob makes the instances of a job: one for each index that nobody has. One that is
// ending still has its index, so that no index runs twice as far as can be known.
func (t *tx) fulfilJob(app *wire.Application, svc string, now time.Time) {
	t.noteJob(app, svc, now)
	spec, rule := app.Spec.Services[svc], ruleOf(app, svc)
	used, held, lost := map[int]bool{}, map[int]bool{}, map[int]string{}
	list := t.of(app.Name, svc)
	off := t.offSite(app.Name, svc, spec, list, now)
	for _, i := range list {
		x := indexOf(i)
		c := t.m.clusters[i.Cluster]
		switch {
		case !i.Draining && (x >= spec.Job.Completions || off[i.ID] != "" && !t.stays(i, spec) && !rule.done(i)):
			t.end(*i, now)
			held[x], used[i.Ordinal] = true, true // until it is gone
			continue
		case i.Cluster == "" && i.State == wire.ClusterScheduled && !rule.done(i):
			t.remove(i.ID, now) // what it did, in a cluster that was removed, is to be done again
			continue
		case i.Unreachable && !i.Draining && !spec.Pins() && !rule.done(i) && t.m.dead(c, now):
			lost[x] = cmp.Or(lost[x], i.ID)
		default:
			held[x] = true
		}
		used[i.Ordinal] = true
	}
	for x := range spec.Job.Completions {
		if held[x] {
			continue
		}
		o := x
		for used[o] {
			if o++; o < spec.Job.Completions {
				o = spec.Job.Completions // those below are of other indexes
			}
		}
		used[o] = true
		i := wire.Instance{
			V: wire.Version, ID: instanceID(app.Name, svc, o), App: app.Name, Service: svc, Ordinal: o, Job: &wire.JobTry{Index: x}, Replaces: lost[x],
			Revision: app.Revision, State: wire.Registered, Since: now,
			History: []wire.Transition{{To: wire.Registered, At: now, Tier: tier, Why: "applied"}},
		}
		why := "wanted by the descriptor"
		if lost[x] != "" {
			why = "replaces " + lost[x]
		}
		t.put(t.advance(i, wire.Requested, now, why))
	}
}

// stays says whether an instance of a job that should be elsewhere is left where it is.
func (t *tx) stays(i *wire.Instance, spec *api.Service) bool {
	if spec.Cron != nil {
		return t.atWork(i.App, i.Service, i.Cluster)
	}
	return t.started(i)
}

// started says whether there is, or was, a process of an instance in its cluster.
func (t *tx) started(i *wire.Instance) bool {
	c := t.m.clusters[i.Cluster]
	if c == nil || c.seen[i.ID] == nil {
		return false
	}
	s := c.seen[i.ID].State
	return s == wire.Running || s == wire.WorkerScheduled || s == wire.Terminated
}

// settleJob decides between an index and what replaced it, where one of them has completed;
// false where none has.
func (t *tx) settleJob(i, replacement *wire.Instance, c *cluster, now time.Time) bool {
	app := t.m.apps[i.App]
	if app == nil || app.Spec.Services[i.Service] == nil || app.Spec.Services[i.Service].Job == nil || app.Spec.Services[i.Service].Cron != nil {
		return false
	}
	rule, rep := ruleOf(app, i.Service), c.seen[i.ID]
	switch {
	case rule.done(replacement):
		t.event("instance/"+i.ID, "cluster %s is back: its replacement %s has completed, the original ends", c.Name, replacement.ID)
		t.end(*i, now)
	case rule.done(i), rep != nil && rep.Completed() && rule.counts(&rep.Instance):
		t.event("instance/"+i.ID, "cluster %s is back, where it has completed: its replacement %s ends", c.Name, replacement.ID)
		t.end(*replacement, now)
	default:
		return false
	}
	return true
}

// divideJob lets d, which is about those of a job that run at a time, be about n indexes:
// they are divided among the clusters in the same proportion.
func divideJob(d *place.Decision, n int) {
	if len(d.Shares) == 0 {
		d.Unplaced = n
		return
	}
	weights := make([]int, len(d.Shares))
	for k, sh := range d.Shares {
		weights[k] = sh.Count
	}
	d.Shares, d.Unplaced = slices.Clone(d.Shares), 0
	for k, count := range job.Divide(n, weights) {
		d.Shares[k].Count = count
	}
	d.Shares = slices.DeleteFunc(d.Shares, func(sh place.ShareOut) bool { return sh.Count == 0 })
}

// jobShares completes the shares of jobs: which index an ordinal stands for, and how many
// may run in which cluster at a time. Those that have nothing left to do leave their part
// to the others.
func (t *tx) jobShares(want map[string]*wire.Share) {
	by := map[string][]string{} // keys of want by application and service
	for key, s := range want {
		if s.Spec.Job != nil {
			by[s.App+"."+s.Service] = append(by[s.App+"."+s.Service], key)
		}
	}
	for _, keys := range by {
		slices.Sort(keys)
		s := want[keys[0]]
		rule := ruleOf(t.m.apps[s.App], s.Service)
		all, open := map[string]int{}, map[string]bool{} // by cluster
		for _, i := range t.of(s.App, s.Service) {
			sh := want[i.Cluster+"."+i.App+"."+i.Service]
			if sh == nil || i.Draining {
				continue
			}
			if x := indexOf(i); x != i.Ordinal {
				if sh.Index == nil {
					sh.Index = map[int]int{}
				}
				sh.Index[i.Ordinal] = x
			}
			if !i.Unreachable {
				all[i.Cluster]++
				open[i.Cluster] = open[i.Cluster] || !rule.done(i)
			}
		}
		if len(keys) == 1 {
			continue
		}
		weights := make([]int, len(keys))
		for k, key := range keys {
			if name, _, _ := strings.Cut(key, "."); open[name] {
				weights[k] = all[name]
			}
		}
		for k, n := range job.Divide(s.Spec.Job.Parallelism, weights) {
			want[keys[k]].Parallel = &n
		}
	}
}

// jobView is how far a job is, and what keeps it from being as promised, "" for nothing.
func (m *model) jobView(app *wire.Application, name string, all []*wire.Instance) (v wire.JobView, message string) {
	if app.Spec.Services[name].Cron != nil {
		return m.cronView(app, name, all)
	}
	spec := app.Spec.Services[name].Job
	rule := ruleOf(app, name)
	v = wire.JobView{Completions: spec.Completions, Suspended: spec.Suspend}
	const (
		waits = iota
		failed
		active
		complete
	)
	state, failure, reason := map[int]int{}, "", ""
	for _, i := range all {
		x := indexOf(i)
		if x >= spec.Completions {
			continue
		}
		if rule.done(i) {
			state[x] = complete
			continue
		}
		cur := m.merged(i)
		counts := rule.counts(&cur)
		switch {
		case i.Draining:
		case counts && cur.Completed():
			state[x] = complete
		case counts && cur.Job != nil && cur.Job.Over != "" && (cur.State == wire.Failed || cur.State == wire.Terminated):
			state[x] = max(state[x], failed)
			failure = cmp.Or(failure, fmt.Sprintf("index %d: %s", x, cur.Job.Over))
		case (cur.State == wire.Running || cur.State == wire.WorkerScheduled) && !i.Unreachable:
			state[x] = max(state[x], active)
		case reason == "":
			reason = notYet(&cur, app.Revision)
		}
	}
	for _, s := range state {
		switch s {
		case complete:
			v.Completed++
		case active:
			v.Active++
		case failed:
			v.Failed++
		}
	}
	for _, cluster := range records.SortedKeys(m.clusters) {
		if r := m.clusters[cluster].jobs[app.Name+"."+name]; r != nil {
			v.Runs = append(v.Runs, r.Runs(cluster)...)
		}
	}
	switch least := min(spec.Completions, spec.Parallelism, spec.Completions-v.Failed); {
	case v.Completed == spec.Completions:
		v.Outcome, v.Why = wire.JobComplete, fmt.Sprintf("%d of %d completed", v.Completed, spec.Completions)
	case v.Completed+v.Failed >= spec.Completions:
		v.Outcome = wire.JobFailed
		if stopped(app, name) {
			v.Outcome = wire.JobStopped
		}
		v.Why = fmt.Sprintf("%d of %d completed; %s", v.Completed, spec.Completions, failure)
		if v.Outcome == wire.JobFailed {
			message = "its job failed: " + v.Why
		}
	case v.Suspended:
	case v.Completed+v.Active < least:
		message = fmt.Sprintf("%d of %d completed, %d of %d at work", v.Completed, spec.Completions, v.Active, spec.Parallelism)
		if reason != "" {
			message += "; " + reason
		}
	}
	return v, message
}
