package root

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

// ScaleReports implements rest.Backend: the clusters decide, and are asked. Who has
// nothing to do with the service is left out.
func (b backend) ScaleReports(ctx context.Context, app, service string) ([]wire.ScaleReport, error) {
	b.mu.Lock()
	if a := b.m.apps[app]; a == nil || a.Spec.Services[service] == nil {
		b.mu.Unlock()
		return nil, wire.Problemf(404, "no-such-service", "verge get services", "there is no such service", "%s.%s is not known", app, service)
	}
	holders := map[string]*wire.Share{}
	gives, unserved := map[string][]wire.Give{}, map[string]string{}
	for _, name := range records.SortedKeys(b.m.clusters) {
		holders[name] = b.m.shares[name+"."+app+"."+service]
		gives[name], unserved[name] = b.m.gives(app+"."+service, name, time.Now())
	}
	b.mu.Unlock()
	out := []wire.ScaleReport{}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, topAtOnce)
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
	slices.SortFunc(out, func(a, b wire.ScaleReport) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out, ctx.Err()
}

// scaleOf asks one cluster; false where it has nothing to do with the service.
func (b backend) scaleOf(ctx context.Context, name, app, service string, s *wire.Share) (r wire.ScaleReport, ok bool) {
	const title = "it cannot be asked now"
	err := b.details(name, title)
	if err == nil {
		err = unanswered(b.ask(ctx, name, wire.Ask{What: wire.AskScale, Instance: app + "." + service}, &r), name, "cluster-unavailable", title)
	}
	var p *wire.Problem
	if err != nil {
		if s == nil {
			return r, false
		}
		r = wire.ScaleReport{V: wire.Version, Min: s.Min, Max: s.Max, Extra: s.Extra, Problem: err.Error()}
		if errors.As(err, &p) {
			r.Problem = p.Detail
		}
	}
	r.Cluster, r.App, r.Service = name, app, service
	return r, s != nil || r.Placed > 0 || r.Now != nil
}
