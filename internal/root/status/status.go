package status

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/counters"
	"github.com/verge-edge/verge/internal/root/jobs"
	"github.com/verge-edge/verge/internal/root/localedit"
	"github.com/verge-edge/verge/internal/root/netlease"
	"github.com/verge-edge/verge/internal/root/placement"
	"github.com/verge-edge/verge/internal/root/rollouts"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Application is an application and how far it is.
func Application(m *state.Model, app *record.Application) apiv1.AppView {
	v := apiv1.AppView{Name: app.Name, Namespace: wire.NamespaceOf(app.Spec), Revision: app.Revision,
		Number: app.Number, Created: app.Created, Applied: app.Applied, Deleting: !app.Deleting.IsZero()}
	for _, name := range app.Spec.ServiceNames() {
		s := Service(m, app, name)
		v.Services = append(v.Services, s)
	}
	v.Message = apiv1.Incomplete(v.Services)
	v.Holds = v.Message == ""
	local := localedit.Views(m, app.Name)
	v.Local, v.Conflicts = local.Changes, local.Conflicts
	v.Tally = counters.OfApplication(m, app)
	if v.Deleting {
		v.Holds = false
		v.Message = "still ending: " + wire.Count(len(m.Read().Instances(app.Name)), "instance")
	}
	return v
}

// unclaimed is said of a service that is not started, see record.Application.
const unclaimed = "not started: no cluster holds anything of it since the root recovered, so it was probably " +
	"deleted; apply it again, or delete it"

// Service is a service and how far it is.
func Service(m *state.Model, app *record.Application, name string) apiv1.ServiceView {
	svc := app.Spec.Services[name]
	v := apiv1.ServiceView{Name: name, Wanted: svc.Replicas.Min}
	least := v.Wanted // that must be there for the service to hold
	if svc.Replicas.Elastic() {
		v.Most, least = svc.Replicas.Max, max(least, 1)
	}
	for _, p := range svc.Ports {
		if p.Ingress != nil && p.Ingress.Host != "" {
			v.Hosts = append(v.Hosts, p.Ingress.Host)
		}
	}
	if slices.Contains(app.Unclaimed, name) {
		v.Message = unclaimed
		return v
	}
	t := m.Read()
	reason, holding, other := "", 0, 0 // other: those that are ready, and not as applied
	all := t.Of(app.Name, name)
	off := placement.Misfits(t, app.Name, name, svc, all)
	for _, i := range all {
		if i.Draining {
			continue
		}
		if m.Spare(i, svc) {
			if i.Cluster == "" {
				reason = cmp.Or(reason, state.NotYet(i, app.Revision))
			}
			continue
		}
		cur := m.Merged(i)
		if v.Failed == "" {
			v.Failed = failedFor(m, i, app)
		}
		if cur.Worker != "" || cur.State == wire.Running || cur.State == wire.WorkerScheduled {
			v.Placed++
		}
		if i.Cluster != "" && !slices.Contains(v.Clusters, i.Cluster) {
			v.Clusters = append(v.Clusters, i.Cluster)
		}
		switch {
		case cur.State == wire.Running && !cur.Unreachable:
			v.Running++
			if cur.Ready {
				v.Ready++
			}
			if cur.Ready && (off[i.ID] != "" || cur.Revision != app.Revision) {
				other++
			}
			if why := off[i.ID]; why != "" {
				reason = cmp.Or(reason, i.ID+" moves: cluster "+i.Cluster+" "+why)
			} else if cur.Ready && cur.Revision == app.Revision {
				holding++
			} else if reason == "" {
				reason = state.NotYet(&cur, app.Revision)
			}
		case cur.State == wire.WorkerScheduled && cur.Asleep && !i.Unreachable:
			v.Asleep++
			holding++
		case cur.State == wire.Terminated && cur.Revision == app.Revision:
			holding++ // completed, and not to be run again
		case reason == "":
			reason = state.NotYet(&cur, app.Revision)
		}
	}
	if svc.Job != nil {
		job, message := jobs.View(m, app, name, all)
		v.Job, v.Message = &job, message
		if v.Failed = ""; svc.Cron == nil && job.Outcome == wire.JobFailed {
			v.Failed = message
		}
		return v
	}
	if holding >= least {
		v.Failed = ""
	}
	if holding >= least && rollouts.Rolling(m, app.Name+"."+name) {
		v.Rollout = wire.RolloutRolling // to its end: those that stood in for others go
	}
	if holding < least {
		v.Message = apiv1.HowReady(holding+other, holding, least)
		if reason != "" {
			v.Message += "; " + reason
		}
		if r := rollouts.Progress(m, app, name); r.Phase != wire.RolloutDone {
			v.Rollout = r.Phase
			if r.Phase != wire.RolloutRolling || r.Why != "" {
				v.Message += "; rollout " + r.Phase + ": " + r.Why
			}
		}
		if local := localedit.Describe(m, app.Name, name); local != "" {
			v.Message += "; it was " + local
		}
	}
	return v
}

// failedFor is why an instance has failed as applied, "" where it has not: as its cluster
// says it, or said it when it gave the instance back.
func failedFor(m *state.Model, i *wire.Instance, app *record.Application) string {
	why := ""
	if c := m.Clusters[i.Cluster]; c != nil && c.Seen[i.ID] != nil {
		if rep := c.Seen[i.ID]; rep.Revision == app.Revision {
			why = rep.Failed
		}
	} else if n := len(i.History); i.Cluster == "" && n > 0 && i.History[n-1].At.After(app.Applied) {
		_, why, _ = strings.Cut(i.History[n-1].Why, place.FailedBecause)
	}
	if why == "" {
		return ""
	}
	return i.ID + ": " + why
}

// Instance is an instance with the age of the report that it comes from.
func Instance(m *state.Model, i *wire.Instance, now time.Time) apiv1.InstanceView {
	v := apiv1.InstanceView{Instance: m.Merged(i), Namespace: m.Namespace(i.App), Source: state.Tier}
	if c := m.Clusters[i.Cluster]; c != nil && c.Seen[i.ID] != nil {
		v.Source = "cluster/" + c.Name
		v.AgeSeconds = now.Sub(c.Heard).Seconds()
		if app := m.Apps[i.App]; app != nil {
			v.Addrs = lease.Ours(state.LeaseTable.Rows(m.DB)[c.Name], app.Number, c.Seen[i.ID].Addrs)
		}
	}
	return v
}

// Cluster is a cluster as people see it.
func Cluster(m *state.Model, c *state.Cluster, now time.Time) apiv1.ClusterView {
	v := apiv1.ClusterView{Name: c.Name, Areas: c.Areas, Connected: c.EverHeard &&
		!c.Suspect, AgeSeconds: -1, Joined: c.Joined, Version: c.Version, Aggregate: c.Aggregate, Cordon: c.Cordon,
		Revoked: c.Revoked}
	v.ClockSkewSeconds = c.Skew.Ahead().Seconds()
	if c.EverHeard {
		v.AgeSeconds = now.Sub(c.Heard).Seconds()
	}
	local := localedit.ViewsOf(c, "")
	v.Local, v.Conflicts = local.Changes, local.Conflicts
	v.Tally, v.SinceAway = counters.Of(c), counters.SinceAway(c)
	v.Network = netlease.ClusterView(m, c)
	return v
}
