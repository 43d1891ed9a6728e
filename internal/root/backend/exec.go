package backend

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/edits"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/views"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

var _ rest.Exec = Backend{}

// Exec implements rest.Backend: a step of a session goes to the cluster that it
// is in, which its id says.
func (b Backend) Exec(ctx context.Context, q rpc.ExecAsk) (a rpc.ExecAnswer, err error) {
	const title = "it cannot be reached now"
	q.Owner = rest.Caller(ctx)
	if q.Do == rpc.ExecDoProfile && q.Profile != nil {
		a.Profile, err = b.profile(ctx, q)
		return a, err
	}
	var cluster string
	if q.Do == rpc.ExecDoStart || q.Do == rpc.ExecDoInvoke {
		v, err := views.Find(b.Core, q.Instance)
		if err != nil {
			return a, err
		}
		if cluster = v.Cluster; cluster == "" {
			return a, wire.Problemf(409, "not-placed", "verge describe instance/"+q.Instance,
				"nothing can be asked of it yet", "%s is %s: %s", q.Instance, v.State, v.Reason)
		}
	} else {
		at, err := rpc.ParseExecID(q.Session)
		if err != nil {
			return a, wire.Problemf(404, rpc.CodeNoSession, "start another", "there is no such session", "%v", err)
		}
		cluster = at.Cluster
	}
	if err := clusters.Details(b.Core, cluster, title); err != nil {
		return a, err
	}
	err = core.Ask(ctx, b.Core, cluster, rpc.Ask{What: rpc.AskExec, Exec: &q}, &a)
	return a, views.Unanswered(err, cluster, "session-unavailable", title)
}

// Changes implements rest.Backend.
func (b Backend) Changes() <-chan struct{} { return b.News.Listen() }

// profile takes a step of profiling a service: in each cluster that has some of it.
// Nothing is remembered here: the key of a run is the same everywhere.
func (b Backend) profile(ctx context.Context, q rpc.ExecAsk) (*rpc.ProfileReport, error) {
	app, service := q.Profile.App, q.Profile.Service
	holders, err := core.View2(b.Core, func(m *state.Model) (names []string, err error) {
		if a := m.Apps[app]; a == nil || a.Spec.Services[service] == nil {
			return nil, edits.NoService(app, service)
		}
		for _, name := range records.SortedKeys(m.Clusters) {
			if m.Shares[name+"."+app+"."+service] != nil {
				names = append(names, name)
			}
		}
		return names, nil
	})
	if err != nil {
		return nil, err
	}
	parts := b.profileIn(ctx, holders, q)
	out := clusters.Summed{ProfileReport: rpc.ProfileReport{V: wire.Version, App: app, Service: service,
		Nodes: []rpc.ProfileNode{}}}
	var first, refused error
	answered := false
	for i, p := range parts {
		if p.Err != nil {
			var is *wire.Problem
			if errors.As(p.Err, &is) && is.Code == "not-profiled" {
				first = cmp.Or(first, p.Err)
				continue // it could not be asked when this began
			}
			if !clusters.AsIfAway(p.Err) {
				refused = cmp.Or(refused, p.Err)
			}
			first = cmp.Or(first, p.Err)
			out.Nodes = append(out.Nodes,
				rpc.ProfileNode{Cluster: holders[i], State: rpc.ProfileFailed, Problem: views.InWords(p.Err)})
			continue
		}
		answered = true
		out.Add(p.Report, holders[i])
	}
	switch {
	case q.Profile.Do == rpc.ProfileStart && refused != nil:
		// All or none: what the others have begun, they end.
		end := *q.Profile
		end.Do, end.Load = rpc.ProfileEnd, nil
		q.Profile = &end
		b.profileIn(context.WithoutCancel(ctx), holders, q)
		return nil, refused
	case refused != nil:
		return nil, refused
	case !answered && first != nil:
		return nil, first
	case !answered:
		return nil, wire.Problemf(409, "nothing-runs", "verge get instances --app "+app,
			"there is nothing to profile", "no cluster has any of %s.%s", app, service)
	}
	return &out.ProfileReport, nil
}

// profileIn puts a step to the clusters of names, some at a time.
func (b Backend) profileIn(ctx context.Context, names []string, q rpc.ExecAsk) []clusters.ProfilePart {
	const title = "it cannot be profiled now"
	out := make([]clusters.ProfilePart, len(names))
	var all sync.WaitGroup
	slots := make(chan struct{}, views.TopAtOnce)
	for i, name := range names {
		slots <- struct{}{} // a question has an end
		all.Go(func() {
			defer func() { <-slots }()
			p := &out[i]
			if p.Err = clusters.Details(b.Core, name, title); p.Err != nil {
				return
			}
			var a rpc.ExecAnswer
			if p.Err = views.Unanswered(core.Ask(ctx, b.Core, name, rpc.Ask{What: rpc.AskExec, Exec: &q}, &a), name,
				"cluster-unavailable",
				title); p.Err != nil {
				return
			}
			if p.Report = a.Profile; p.Report == nil {
				p.Err = wire.Problemf(502, "cluster-unavailable", "upgrade the cluster", title,
					"cluster %s does not know of profiles", name)
			}
		})
	}
	all.Wait()
	return out
}
