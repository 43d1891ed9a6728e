package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/counters"
	"github.com/verge-edge/verge/internal/root/edits"
	"github.com/verge-edge/verge/internal/root/jobs"
	"github.com/verge-edge/verge/internal/root/overflow"
	"github.com/verge-edge/verge/internal/root/revisions"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/views"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

var _ rest.Services = Backend{}

// Scale implements rest.Backend: the descriptor itself is changed, so that the
// number is as durable as if it had been written there.
func (b Backend) Scale(ctx context.Context, name, service string, replicas int) (apiv1.ApplyResult, error) {
	warnings, err := b.gate(ctx, wire.GateScale, name,
		fmt.Sprintf("%s is to have %s", service, wire.Count(replicas, "replica")))
	if err != nil {
		return apiv1.ApplyResult{}, err
	}
	var res apiv1.ApplyResult
	err = edits.ChangeApp(ctx, b.Core, name, func(t *state.Tx, old *record.Application) (*record.Application, error) {
		now := t.Now
		if s := old.Spec.Services[service]; s != nil && s.Replicas.Elastic() {
			return nil, wire.ScalesItself(name, service, s.Replicas)
		}
		source, spec, err := descriptor.Scaled([]byte(old.Source), old.Spec, service, replicas)
		if err != nil {
			return nil, wire.Problemf(422, "cannot-scale", "verge get services --app "+name,
				"it cannot be scaled to that", "%v", err)
		}
		res = apiv1.ApplyResult{Name: name, Revision: old.Revision, Change: "unchanged", Warnings: warnings}
		if records.Same(old.Spec, spec) {
			return nil, nil
		}
		next := *old
		next.Source, next.Spec, next.Revision, next.Applied = string(source), spec, old.Revision+1, now
		next.Changes += counters.Changes(old.Spec, spec)
		next.By, next.Why, next.Changed = rest.Caller(ctx), "verge scale", revisions.Changed(old.Spec, spec)
		next.Scaled, next.Unclaimed = maps.Clone(old.Scaled), nil
		if next.Scaled == nil {
			next.Scaled = map[string]record.Scaled{}
		}
		next.Scaled[service] = record.Scaled{Replicas: replicas, By: rest.Caller(ctx), At: now}
		res.Revision, res.Change, res.Changes = next.Revision, "updated", 1
		t.Event(event.ApplicationApplied, name, "%s scaled from %d to %d by %s, revision %d", service,
			old.Spec.Services[service].Replicas.Min, replicas, rest.Caller(ctx), next.Revision)
		return &next, nil
	})
	return res, err
}

// Restart implements rest.Backend. What it stores is a mark: instances that were
// started before it are behind it, whoever was away meanwhile.
func (b Backend) Restart(ctx context.Context, name string, q apiv1.RestartRequest) (apiv1.RestartResult, error) {
	if _, err := b.gate(ctx, wire.GateRestart, name, "what runs of it is to be started again"); err != nil {
		return apiv1.RestartResult{}, err
	}
	var res apiv1.RestartResult
	err := edits.ChangeApp(ctx, b.Core, name, func(t *state.Tx, old *record.Application) (*record.Application, error) {
		if q.Service != "" && old.Spec.Services[q.Service] == nil {
			return nil, edits.NoService(name, q.Service)
		}
		if q.Ordinal != nil && q.Service == "" {
			return nil, wire.Problemf(422, "invalid-request", "say which service it is of",
				"the request is not valid", "an ordinal without a service")
		}
		res = apiv1.RestartResult{Name: name, N: edits.NextRestart(t.Model, old), Instances: []wire.InstanceID{}}
		for _, i := range t.Instances(name) {
			if (q.Service == "" || i.Service == q.Service) && (q.Ordinal == nil || i.Ordinal == *q.Ordinal) && !i.Draining {
				res.Instances = append(res.Instances, i.ID)
			}
		}
		if q.Ordinal != nil && len(res.Instances) == 0 {
			return nil, wire.Problemf(404, "no-such-instance", "verge get instances --app "+name,
				"there is no such instance", "%s is not known", state.InstanceID(name, q.Service, *q.Ordinal))
		}
		next := *old
		next.Unclaimed = nil
		next.Restarts = edits.Marked(t.Model, old, q,
			wire.Restart{N: res.N, By: rest.Caller(ctx), At: t.Now, Why: q.Reason})
		kind, subject := event.ApplicationRestart, name
		if q.Ordinal != nil {
			kind, subject = event.InstanceRestart, res.Instances[0]
		}
		text := "restart asked for"
		if q.Service != "" {
			text = "restart of " + q.Service + " asked for"
		}
		text += edits.ByWhom(rest.Caller(ctx))
		if q.Reason != "" {
			text += ": " + q.Reason
		}
		t.Event(kind, subject, "%s", text)
		return &next, nil
	})
	return res, err
}

// Job implements rest.Backend. A run is a mark as of a restart, its end one from the same
// count: which of them is the later one is known to whoever hears of both. Suspend is a
// change of the descriptor, as durable as if it had been written there.
func (b Backend) Job(ctx context.Context, app, service string, q apiv1.JobRequest) (apiv1.JobResult, error) {
	res := apiv1.JobResult{Name: app + "." + service}
	err := edits.ChangeApp(ctx, b.Core, app, func(t *state.Tx, old *record.Application) (*record.Application, error) {
		now := t.Now
		m := t.Model
		s := old.Spec.Services[service]
		switch {
		case s == nil:
			return nil, wire.Problemf(404, "no-such-service", "verge get jobs --app "+app, "there is no such job",
				"%s is not known", res.Name)
		case s.Job == nil:
			return nil, wire.NoJob(res.Name)
		}
		var said string
		next := *old
		mark := wire.Restart{N: edits.NextRestart(m, old), By: rest.Caller(ctx), At: now, Why: q.Reason}
		view, _ := jobs.View(m, old, service, t.Of(app, service))
		switch q.Action {
		case apiv1.JobRunNow:
			next.Restarts = edits.Marked(m, old, apiv1.RestartRequest{Service: service}, mark)
			res.N, said = mark.N, "run asked for"
			switch {
			case s.Cron == nil && s.Job.Suspend:
				res.Message = "it is suspended: nothing of it starts before verge job resume " + res.Name
			case s.Cron != nil && s.Cron.Concurrency == api.CronForbid && view.Run > 0 && view.Outcome == "":
				res.Message = fmt.Sprintf("it begins when run %d has ended (concurrency: forbid)", view.Run)
			}
		case apiv1.JobStop:
			next.Stops = jobs.Stops(old, service, mark)
			res.N, said = mark.N, "stop asked for"
			if view.Outcome != "" || s.Cron != nil && view.Run == 0 {
				res.Message = "no run of it is known to go on"
			}
		default:
			source, spec, err := descriptor.Suspended([]byte(old.Source), old.Spec, service, q.Action == apiv1.JobSuspend)
			if err != nil {
				return nil, wire.Problemf(422, "cannot-suspend", "verge get jobs --app "+app,
					"it cannot be suspended or resumed", "%v", err)
			}
			if res.Revision = old.Revision; records.Same(old.Spec, spec) {
				res.Message = "it is so already"
				return nil, nil
			}
			next.Source, next.Spec, next.Revision, next.Applied = string(source), spec, old.Revision+1, now
			next.Changes += counters.Changes(old.Spec, spec)
			next.By, next.Why, next.Changed = rest.Caller(ctx), "verge job "+q.Action, revisions.Changed(old.Spec, spec)
			res.Revision, said = next.Revision,
				map[string]string{apiv1.JobSuspend: "suspended", apiv1.JobResume: "resumed"}[q.Action]
		}
		said += edits.ByWhom(rest.Caller(ctx))
		if q.Reason != "" {
			said += ": " + q.Reason
		}
		t.Event(event.JobAction, res.Name, "%s", said)
		return &next, nil
	})
	return res, err
}

// ScaleReports implements rest.Backend: the clusters decide, and are asked. Who has
// nothing to do with the service is left out.
func (b Backend) ScaleReports(ctx context.Context, app, service string) ([]rpc.ScaleReport, error) {
	holders := map[string]*wire.Share{}
	gives, unserved := map[string][]rpc.Give{}, map[string]string{}
	if err := core.View(b.Core, func(m *state.Model) error {
		if a := m.Apps[app]; a == nil || a.Spec.Services[service] == nil {
			return edits.NoService(app, service)
		}
		for _, name := range records.SortedKeys(m.Clusters) {
			holders[name] = m.Shares[name+"."+app+"."+service]
			gives[name], unserved[name] = overflow.Gives(m, app+"."+service, name, time.Now())
		}
		return nil
	}); err != nil {
		return nil, err
	}
	out := []rpc.ScaleReport{}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, views.TopAtOnce)
	for name, s := range holders {
		slots <- struct{}{} // a question has an end
		all.Go(func() {
			defer func() { <-slots }()
			r, ok := b.scaleOf(ctx, name, app, service, s)
			r.Gives, r.Unserved = gives[name], unserved[name]
			if ok || len(r.Gives) > 0 {
				mu.Lock()
				defer mu.Unlock()
				out = append(out, r)
			}
		})
	}
	all.Wait()
	slices.SortFunc(out, func(a, b rpc.ScaleReport) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out, ctx.Err()
}

// scaleOf asks one cluster; false where it has nothing to do with the service.
func (b Backend) scaleOf(ctx context.Context, name, app, service string, s *wire.Share) (r rpc.ScaleReport, ok bool) {
	const title = "it cannot be asked now"
	err := clusters.Details(b.Core, name, title)
	if err == nil {
		err = views.Unanswered(core.Ask(ctx, b.Core, name, rpc.Ask{What: rpc.AskScale, Instance: app + "." + service},
			&r), name,
			"cluster-unavailable", title)
	}
	var p *wire.Problem
	if err != nil {
		if s == nil {
			return r, false
		}
		r = rpc.ScaleReport{V: wire.Version, Min: s.Min, Max: s.Max, Extra: s.Extra, Problem: err.Error()}
		if errors.As(err, &p) {
			r.Problem = p.Detail
		}
	}
	r.Cluster, r.App, r.Service = name, app, service
	return r, s != nil || r.Placed > 0 || r.Now != nil
}
