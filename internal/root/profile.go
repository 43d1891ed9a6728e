package root

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

// profile takes a step of profiling a service: in each cluster that has some of it.
// Nothing is remembered here: the key of a run is the same everywhere.
func (b backend) profile(ctx context.Context, q wire.ExecAsk) (*wire.ProfileReport, error) {
	app, service := q.Profile.App, q.Profile.Service
	b.mu.Lock()
	a := b.m.apps[app]
	if a == nil || a.Spec.Services[service] == nil {
		b.mu.Unlock()
		return nil, wire.Problemf(404, "no-such-service", "verge get services", "there is no such service", "%s.%s is not known", app, service)
	}
	var holders []string
	for _, name := range records.SortedKeys(b.m.clusters) {
		if b.m.shares[name+"."+app+"."+service] != nil {
			holders = append(holders, name)
		}
	}
	b.mu.Unlock()
	parts := b.profileIn(ctx, holders, q)
	out := summed{wire.ProfileReport{V: wire.Version, App: app, Service: service, Nodes: []wire.ProfileNode{}}}
	var first, refused error
	answered := false
	for i, p := range parts {
		if p.err != nil {
			var is *wire.Problem
			if errors.As(p.err, &is) && is.Code == "not-profiled" {
				first = cmp.Or(first, p.err)
				continue // it could not be asked when this began
			}
			if !asIfAway(p.err) {
				refused = cmp.Or(refused, p.err)
			}
			first = cmp.Or(first, p.err)
			out.Nodes = append(out.Nodes, wire.ProfileNode{Cluster: holders[i], State: wire.ProfileFailed, Problem: inWords(p.err)})
			continue
		}
		answered = true
		out.add(p.report, holders[i])
	}
	switch {
	case q.Profile.Do == wire.ProfileStart && refused != nil:
		// All or none: what the others have begun, they end.
		end := *q.Profile
		end.Do, end.Load = wire.ProfileEnd, nil
		q.Profile = &end
		b.profileIn(context.WithoutCancel(ctx), holders, q)
		return nil, refused
	case refused != nil:
		return nil, refused
	case !answered && first != nil:
		return nil, first
	case !answered:
		return nil, wire.Problemf(409, "nothing-runs", "verge get instances --app "+app, "there is nothing to profile", "no cluster has any of %s.%s", app, service)
	}
	return &out.ProfileReport, nil
}

// asIfAway: a cluster could not be asked, or has nothing of the service ready; the
// others can be profiled without it.
func asIfAway(err error) bool {
	var p *wire.Problem
	return errors.As(err, &p) && slices.Contains([]string{"kept-private", "cluster-away", "cluster-unavailable", "no-such-cluster", "nothing-runs", "no-such-service", "unknown-question", "bad-query", "bad-request"}, p.Code)
}

// profilePart is what one cluster says.
type profilePart struct {
	report *wire.ProfileReport
	err    error
}

// profileIn puts a step to clusters, some at a time.
func (b backend) profileIn(ctx context.Context, clusters []string, q wire.ExecAsk) []profilePart {
	const title = "it cannot be profiled now"
	out := make([]profilePart, len(clusters))
	var all sync.WaitGroup
	slots := make(chan struct{}, topAtOnce)
	for i, name := range clusters {
		slots <- struct{}{} // a question has an end
		all.Go(func() {
			defer func() { <-slots }()
			p := &out[i]
			if p.err = b.details(name, title); p.err != nil {
				return
			}
			var a wire.ExecAnswer
			if p.err = unanswered(b.ask(ctx, name, wire.Ask{What: "exec", Exec: &q}, &a), name, "cluster-unavailable", title); p.err != nil {
				return
			}
			if p.report = a.Profile; p.report == nil {
				p.err = wire.Problemf(502, "cluster-unavailable", "upgrade the cluster", title, "cluster %s does not know of profiles", name)
			}
		})
	}
	all.Wait()
	return out
}

// summed is the report of several clusters.
type summed struct{ wire.ProfileReport }

// add the report of a cluster. It has failed where one has, goes on where one does, and
// is stored where that of any is.
func (s *summed) add(r *wire.ProfileReport, cluster string) {
	worse := []string{"", wire.ProfileDone, wire.ProfileRuns, wire.ProfileFailed}
	if slices.Index(worse, r.State) > slices.Index(worse, s.State) {
		s.State = r.State
	}
	if r.Why != "" {
		s.Why = strings.TrimPrefix(s.Why+"; cluster "+cluster+", "+r.Why, "; ")
	}
	s.Stored = s.Stored || r.Stored
	s.Took, s.Whole = max(s.Took, r.Took), max(s.Whole, r.Whole)
	for _, n := range r.Nodes {
		n.Cluster = cluster
		s.Nodes = append(s.Nodes, n)
	}
}
