package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/job"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/placement"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Table is the schedules of jobs, by application and service.
var Table = table.Add(&state.Schema, records.Kind{
	Prefix: Key, Fate: records.Holds, Drop: "the schedule is given to the cluster that has the job, which goes " +
		"on where it is; where that one is lost, what is due counts from now on",
}, table.Rules[Schedule]{Leads: state.LeadsService})

// noteJob stores which indexes of a job have completed, as their clusters say.
func noteJob(t *state.Tx, app *record.Application, svc string, now time.Time) {
	if app.Spec.Services[svc].Cron != nil {
		return
	}
	rule := state.RuleOf(app, svc)
	for _, i := range t.Of(app.Name, svc) {
		c := t.Model.Clusters[i.Cluster]
		if c == nil || rule.Done(i) {
			continue
		}
		rep := c.Seen[i.ID]
		if rep == nil || !rep.Completed() || !rule.Counts(&rep.Instance) {
			continue
		}
		next := *i
		at := rep.Since
		if at.IsZero() {
			at = now
		}
		next.Job = &wire.JobTry{Index: state.IndexOf(i), Completed: at.Round(0)}
		next.Program, next.Restarted = rep.Program, rep.Restarted
		t.Put(next)
	}
}

// Fulfil makes the instances of a job: one for each index that nobody has. One that is
// ending still has its index, so that no index runs twice as far as can be known.
func Fulfil(t *state.Tx, app *record.Application, svc string, now time.Time) {
	noteJob(t, app, svc, now)
	spec, rule := app.Spec.Services[svc], state.RuleOf(app, svc)
	used, held, lost := map[int]bool{}, map[int]bool{}, map[int]string{}
	list := t.Of(app.Name, svc)
	off := placement.OffSite(t, app.Name, svc, spec, list, now)
	for _, i := range list {
		x := state.IndexOf(i)
		c := t.Model.Clusters[i.Cluster]
		switch {
		case !i.Draining && (x >= spec.Job.Completions || off[i.ID] != "" && !stays(t, i, spec) && !rule.Done(i)):
			t.End(*i, now)
			held[x], used[i.Ordinal] = true, true // until it is gone
			continue
		case i.Cluster == "" && i.State == wire.ClusterScheduled && !rule.Done(i):
			t.Remove(i.ID, now) // what it did, in a cluster that was removed, is to be done again
			continue
		case i.Unreachable && !i.Draining && !spec.Pins() && !rule.Done(i) && t.Model.Dead(c, now):
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
			V: wire.Version, ID: state.InstanceID(app.Name, svc, o), App: app.Name, Service: svc, Ordinal: o,
			Job: &wire.JobTry{Index: x}, Replaces: lost[x],
			Revision: app.Revision, State: wire.Registered, Since: now,
			History: []wire.Transition{{To: wire.Registered, At: now, Tier: state.Tier, Why: "applied"}},
		}
		why := "wanted by the descriptor"
		if lost[x] != "" {
			why = "replaces " + lost[x]
		}
		t.Put(t.Advance(i, wire.Requested, now, why))
	}
}

// stays says whether an instance of a job that should be elsewhere is left where it is.
func stays(t *state.Tx, i *wire.Instance, spec *api.Service) bool {
	if spec.Cron != nil {
		return AtWork(t, i.App, i.Service, i.Cluster)
	}
	return started(t, i)
}

// started says whether there is, or was, a process of an instance in its cluster.
func started(t *state.Tx, i *wire.Instance) bool {
	c := t.Model.Clusters[i.Cluster]
	if c == nil || c.Seen[i.ID] == nil {
		return false
	}
	s := c.Seen[i.ID].State
	return s == wire.Running || s == wire.WorkerScheduled || s == wire.Terminated
}

// Settle decides between an index and what replaced it, where one of them has completed;
// false where none has.
func Settle(t *state.Tx, i, replacement *wire.Instance, c *state.Cluster, now time.Time) bool {
	app := t.Model.Apps[i.App]
	if app == nil || app.Spec.Services[i.Service] == nil || app.Spec.Services[i.Service].Job == nil ||
		app.Spec.Services[i.Service].Cron != nil {
		return false
	}
	rule, rep := state.RuleOf(app, i.Service), c.Seen[i.ID]
	switch {
	case rule.Done(replacement):
		t.Event(event.InstanceOriginal, i.ID,
			"cluster %s is back: its replacement %s has completed, the original ends", c.Name, replacement.ID)
		t.End(*i, now)
	case rule.Done(i), rep != nil && rep.Completed() && rule.Counts(&rep.Instance):
		t.Event(event.InstanceOriginal, i.ID, "cluster %s is back, where it has completed: its replacement %s ends",
			c.Name, replacement.ID)
		t.End(*replacement, now)
	default:
		return false
	}
	return true
}

// Share completes the shares of jobs: which index an ordinal stands for, and how many
// may run in which cluster at a time. Those that have nothing left to do leave their part
// to the others.
func Share(t *state.Tx, want map[string]*wire.Share) {
	by := map[string][]string{} // keys of want by application and service
	for key, s := range want {
		if s.Spec.Job != nil {
			by[s.App+"."+s.Service] = append(by[s.App+"."+s.Service], key)
		}
	}
	for _, keys := range by {
		slices.Sort(keys)
		s := want[keys[0]]
		rule := state.RuleOf(t.Model.Apps[s.App], s.Service)
		all, open := map[string]int{}, map[string]bool{} // by cluster
		for _, i := range t.Of(s.App, s.Service) {
			sh := want[i.Cluster+"."+i.App+"."+i.Service]
			if sh == nil || i.Draining {
				continue
			}
			if x := state.IndexOf(i); x != i.Ordinal {
				if sh.Index == nil {
					sh.Index = map[int]int{}
				}
				sh.Index[i.Ordinal] = x
			}
			if !i.Unreachable {
				all[i.Cluster]++
				open[i.Cluster] = open[i.Cluster] || !rule.Done(i)
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

// View is how far a job is, and what keeps it from being as promised, "" for nothing.
func View(m *state.Model, app *record.Application, name string, all []*wire.Instance) (v apiv1.JobView,
	message string) {
	if app.Spec.Services[name].Cron != nil {
		return cronView(m, app, name, all)
	}
	spec := app.Spec.Services[name].Job
	rule := state.RuleOf(app, name)
	v = apiv1.JobView{Completions: spec.Completions, Suspended: spec.Suspend}
	const (
		waits = iota
		failed
		active
		complete
	)
	phase, failure, reason := map[int]int{}, "", ""
	for _, i := range all {
		x := state.IndexOf(i)
		if x >= spec.Completions {
			continue
		}
		if rule.Done(i) {
			phase[x] = complete
			continue
		}
		cur := m.Merged(i)
		counts := rule.Counts(&cur)
		switch {
		case i.Draining:
		case counts && cur.Completed():
			phase[x] = complete
		case counts && cur.Job != nil && cur.Job.Over != "" &&
			(cur.State == wire.Failed || cur.State == wire.Terminated):
			phase[x] = max(phase[x], failed)
			failure = cmp.Or(failure, fmt.Sprintf("index %d: %s", x, cur.Job.Over))
		case (cur.State == wire.Running || cur.State == wire.WorkerScheduled) && !i.Unreachable:
			phase[x] = max(phase[x], active)
		case reason == "":
			reason = state.NotYet(&cur, app.Revision)
		}
	}
	for _, s := range phase {
		switch s {
		case complete:
			v.Completed++
		case active:
			v.Active++
		case failed:
			v.Failed++
		}
	}
	for _, cluster := range records.SortedKeys(m.Clusters) {
		if r := m.Clusters[cluster].Jobs[app.Name+"."+name]; r != nil {
			v.Runs = append(v.Runs, r.Runs(cluster)...)
		}
	}
	switch least := min(spec.Completions, spec.Parallelism, spec.Completions-v.Failed); {
	case v.Completed == spec.Completions:
		v.Outcome, v.Why = wire.JobComplete, fmt.Sprintf("%d of %d completed", v.Completed, spec.Completions)
	case v.Completed+v.Failed >= spec.Completions:
		v.Outcome = wire.JobFailed
		if Stopped(app, name) {
			v.Outcome = wire.JobStopped
		}
		v.Why = fmt.Sprintf("%d of %d completed; %s", v.Completed, spec.Completions, failure)
		if v.Outcome == wire.JobFailed {
			message = "its job failed: " + v.Why
		}
	case v.Suspended:
	case v.Completed+v.Active < least:
		message = fmt.Sprintf("%d of %d completed, %d of %d at work", v.Completed, spec.Completions, v.Active,
			spec.Parallelism)
		if reason != "" {
			message += "; " + reason
		}
	}
	return v, message
}
