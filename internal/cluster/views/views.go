package views

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/placement"
	"github.com/verge-edge/verge/internal/cluster/rehearsal"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Descriptor is what counts here of an application, in the words of a descriptor;
// "" where it is ending. The text that was applied is at the root.
func Descriptor(c *core.Core, app string) (string, error) {
	return core.View2(c, func(m *state.Model) (string, error) {
		spec := rehearsal.Written(m, app)
		if spec == nil {
			return "", nil
		}
		spec.Namespace = m.Namespace(app)
		b, err := json.MarshalIndent(spec, "", "  ")
		if err != nil {
			return "", fmt.Errorf("writing the descriptor of %s: %w", app, err)
		}
		return string(b), nil
	})
}

// Apps are the applications as far as they are here, and those of which something
// is still ending.
func Apps(m *state.Model) []apiv1.AppView {
	by := map[string]*apiv1.AppView{}
	of := func(app string) *apiv1.AppView {
		if by[app] == nil {
			by[app] = &apiv1.AppView{Name: app, Namespace: m.Namespace(app), Holds: true}
		}
		return by[app]
	}
	for _, key := range records.SortedKeys(m.Shares) {
		s := m.Shares[key]
		a := of(s.App)
		a.Revision = max(a.Revision, s.Revision)
		if r := m.Routes[key]; r != nil && r.AppNumber != 0 {
			a.Number = r.AppNumber
		} else if a.Number == 0 {
			a.Number = s.AppNumber
		}
		v := ServiceView(m, s)
		a.Services = append(a.Services, v)
	}
	for _, key := range records.SortedKeys(m.Insts) {
		if i := m.Insts[key]; by[i.App] == nil || by[i.App].Deleting {
			a := of(i.App)
			a.Deleting, a.Holds, a.Message = true, false, "instances are still ending"
			a.Revision = max(a.Revision, i.Revision)
		}
	}
	out := make([]apiv1.AppView, 0, len(by))
	for _, name := range records.SortedKeys(by) {
		a := by[name]
		if !a.Deleting {
			a.Message = apiv1.Incomplete(a.Services)
			a.Holds = a.Message == ""
		}
		local := localedit.Views(m, name)
		a.Local, a.Conflicts = local.Changes, local.Conflicts
		if n := m.Counters[name]; n != nil {
			a.Tally = *n
		}
		out = append(out, *a)
	}
	return out
}

// ServiceView is a share and how far it is.
func ServiceView(m *state.Model, s *wire.Share) apiv1.ServiceView {
	v := apiv1.ServiceView{Name: s.Service, Wanted: rollouts.Promised(s), Clusters: []string{m.Name}}
	if given := autoscale.Delegated(m, s.App+"."+s.Service); given != nil && given.Max > given.Min {
		v.Most = given.Max
	}
	for _, p := range s.Spec.Ports {
		if p.Ingress != nil && p.Ingress.Host != "" {
			v.Hosts = append(v.Hosts, p.Ingress.Host)
		}
	}
	t := m.Read()
	reason, holding, other := "", 0, 0 // other: those that are ready, and not as applied
	for _, o := range state.Ordinals(s) {
		i := m.Insts[state.InstanceID(s.App, s.Service, o)]
		if i == nil || state.StandIn(i) {
			continue
		}
		if i.Worker != "" {
			v.Placed++
		}
		switch {
		case i.State == wire.Running && i.Unreachable:
			what := i.ID + " is unreachable: worker " + i.Worker + " does not report"
			if i.Pinned != "" {
				what = i.ID + " is unreachable: " + i.Reason
			}
			reason = what
			continue
		case i.State == wire.Running && i.Ready:
			v.Running++
			v.Ready++
			if i.Revision == s.Revision {
				holding++
				continue
			}
			if other++; reason == "" {
				reason = i.ID + " still runs what was wanted before"
			}
			continue
		case state.Asleep(i):
			v.Asleep++
			holding++
			continue
		case i.State == wire.Running:
			v.Running++
		case i.State == wire.Terminated:
			holding++ // completed, and not to be run again
			continue
		}
		if i.Reason != "" {
			reason = i.ID + ": " + i.Reason
		}
		if why := instances.FailedFor(t, i, s); why != "" && i.Revision == s.Revision && v.Failed == "" {
			v.Failed = i.ID + ": " + why
		}
	}
	if s.Spec.Job != nil {
		job, message := jobs.View(m, s)
		v.Job, v.Message = &job, message
		if v.Failed = ""; s.Spec.Cron == nil && job.Outcome == wire.JobFailed {
			v.Failed = message
		}
		return v
	}
	r := rollouts.UpTable.Rows(m.DB)[s.App+"."+s.Service]
	if r != nil && r.Phase != wire.RolloutDone {
		v.Rollout = r.Phase
	}
	if holding < v.Wanted {
		v.Message = apiv1.HowReady(holding+other, holding, v.Wanted)
		if reason != "" {
			v.Message += "; " + reason
		}
		if v.Rollout != "" && r.Why != "" {
			v.Message += "; rollout " + r.Phase + ": " + r.Why
		}
	}
	return v
}

// View is an instance with the age of the report that it comes from.
func View(t *state.Tx, i *wire.Instance, now time.Time) apiv1.InstanceView {
	m := t.Model
	v := apiv1.InstanceView{Instance: *i, Namespace: m.NamespaceOf(i), Source: m.Tier()}
	if w := m.Workers[i.Worker]; w != nil {
		v.Source = "worker/" + m.Name + "/" + i.Worker
		v.AgeSeconds = now.Sub(w.Heard).Seconds()
		v.Addrs = netlease.In(t).Addrs(i, w)
	}
	return v
}

// Explain is the cluster's part of why an instance is where it is.
func Explain(ctx context.Context, c *core.Core, id wire.InstanceID) (apiv1.Explanation, error) {
	out := apiv1.Explanation{Instance: id}
	i, tier := core.View2(c, func(m *state.Model) (*wire.Instance, string) { return m.Insts[id], m.Tier() })
	if i == nil {
		return out, core.NoInstance(c, id)
	}
	if h := placement.Displacement(i); h != nil {
		out.Notes = append(out.Notes, fmt.Sprintf("at %s it was %s", h.At.UTC().Format(time.RFC3339), h.Why))
	}
	e, err := c.RecordStore.Get(ctx, state.KeyWhy+id)
	if errors.Is(err, bus.ErrNotFound) {
		out.Notes = append(out.Notes, "cluster "+c.ClusterName+" has not decided about it yet")
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("looking up the decision about %s: %w", id, err)
	}
	var rec place.Record
	if err := json.Unmarshal(e.Value, &rec); err != nil {
		return out, fmt.Errorf("stored decision about %s: %w", id, err)
	}
	out.Decisions = append(out.Decisions, rpc.Explained{Tier: tier, At: rec.At, Decision: rec.Decision})
	return out, nil
}

// Status is a worker's in a word; see rpc.WorkerView.
func Status(m *state.Model, w *state.Worker) string {
	switch {
	case w.Suspect, !w.EverHeard && m.Waits.After(m.Started):
		return "suspect"
	case !w.EverHeard:
		return "never-seen"
	}
	return "ready"
}

// Workers are all workers, as people are shown them.
func Workers(c *core.Core) []rpc.WorkerView {
	return core.View(c, func(m *state.Model) []rpc.WorkerView {
		now := time.Now()
		use := fleet.Reserved(m.Read())
		out := []rpc.WorkerView{}
		for _, name := range records.SortedKeys(m.Workers) {
			w := m.Workers[name]
			v := rpc.WorkerView{WorkerInfo: w.Info, Cluster: c.ClusterName, Status: Status(m, w),
				AgeSeconds: now.Sub(w.Heard).Seconds(), Used: use[name].Used, Instances: use[name].N, Cordon: w.Cordon,
				Revoked: w.Revoked}
			if w.Gateway.May() {
				v.GatewayGrant = w.Gateway
			}
			v.Network = netlease.Shown(m, w.Info.Network)
			v.ClockSkewSeconds = w.Skew.Ahead().Seconds()
			if v.Status == "never-seen" {
				v.AgeSeconds = -1
			}
			out = append(out, v)
		}
		return out
	})
}

// Logs passes a question for a log on to the worker that has it.
func Logs(ctx context.Context, c *core.Core, q rpc.Ask) (rpc.LogChunk, error) {
	if q.Former > 0 {
		return formerLog(ctx, c, q)
	}
	var chunk rpc.LogChunk
	name, err := workers.WorkerOf(c, q.Instance, "there is no log yet")
	if err != nil {
		return chunk, err
	}
	return chunk, core.AskWorker(ctx, c, name, q, "the log cannot be read now", &chunk)
}

// SeenWorkers and SeenApps are those that who asks may see.
func SeenWorkers(ctx context.Context, site string, list []rpc.WorkerView) []rpc.WorkerView {
	return access.Visible(access.From(ctx), list, func(w rpc.WorkerView) access.Object {
		return access.Object{Kind: access.Worker, Name: site + "/" + w.Name, Cluster: site, Site: true}
	})
}

// SeenLocal is of the local changes what who asks may see.
func SeenLocal(ctx context.Context, v apiv1.LocalView) ([]wire.LocalChange, []wire.Conflict) {
	who := access.From(ctx)
	return access.Visible(who, v.Changes, func(l wire.LocalChange) access.Object { return rest.OfLocal(l, true) }),
		access.Visible(who, v.Conflicts, func(c wire.Conflict) access.Object {
			return rest.OfLocal(c.LocalChange,
				true)
		})
}

// SeenApps are the applications that somebody may see.
func SeenApps(ctx context.Context, site string, list []apiv1.AppView) []apiv1.AppView {
	return access.Visible(access.From(ctx), list, func(a apiv1.AppView) access.Object {
		return access.Object{Kind: access.Application, Name: a.Name, Namespace: a.Namespace, Cluster: site, Site: true}
	})
}
