package cli

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// serviceTop is what runs of a service, and what is asked of it at all clusters
// together where its requests decide how many instances run.
type serviceTop struct {
	App     string `json:"app"`
	Service string `json:"service"`
	// Fixed: the number of instances is fixed, and workers do not report its requests.
	Fixed bool `json:"fixed,omitempty"`
	// Rate and Refused are requests per second: all, and those turned away. Within is
	// the share that was not, where the service has an objective.
	Rate    float64  `json:"rate"`
	Refused float64  `json:"refused"`
	Within  *float64 `json:"within,omitempty"`
	Waiting int      `json:"waiting"`
	// Exec is how long an instance works on a request in the mean of the clusters, by
	// their requests; 0: not known.
	Exec api.Duration `json:"exec"`
	SLO  api.Duration `json:"slo,omitempty"`
	// Awake run of those Placed; Wanted are asked for.
	Awake    int      `json:"awake"`
	Placed   int      `json:"placed"`
	Wanted   int      `json:"wanted"`
	Short    int      `json:"short,omitempty"`
	Clusters []string `json:"clusters"`
	Problem  string   `json:"problem,omitempty"`
}

// topServices lists all services and asks the clusters about those that scale.
func topServices(ctx context.Context, c *client.Client, app string) ([]serviceTop, error) {
	apps, err := c.Applications.List(ctx)
	if err != nil {
		return nil, err
	}
	var out []serviceTop
	for _, a := range apps {
		for _, s := range a.Services {
			if app == "" || a.Name == app {
				out = append(out, newServiceTop(a.Name, s))
			}
		}
	}
	const atOnce = 8
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range out {
		if out[i].Fixed {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			list, err := c.Services.ExplainScale(ctx, out[i].App, out[i].Service)
			if err != nil {
				out[i].Problem = firstLine(err)
				return
			}
			out[i].add(list)
		})
	}
	all.Wait()
	return out, ctx.Err()
}

// newServiceTop is a service before its clusters are asked.
func newServiceTop(app string, s apiv1.ServiceView) serviceTop {
	t := serviceTop{App: app, Service: s.Name, Clusters: []string{}}
	if s.Most <= s.Wanted {
		t.Fixed, t.Awake, t.Placed, t.Wanted, t.Problem = true, s.Running, s.Placed, s.Wanted, s.Message
		t.Clusters = append(t.Clusters, s.Clusters...)
	}
	return t
}

// add sums up what the clusters say.
func (t *serviceTop) add(list []rpc.ScaleReport) {
	work := 0.0 // seconds of instances per second
	known := 0.0
	for _, r := range list {
		if r.Problem != "" {
			t.Problem = r.Cluster + ": " + r.Problem
			continue
		}
		t.Clusters = append(t.Clusters, r.Cluster)
		t.Awake += r.Awake
		t.Placed += r.Placed
		if r.Now == nil {
			continue
		}
		t.Rate += r.Now.Rate
		t.Refused += r.Now.Refused
		t.Waiting += r.Now.Waiting
		t.Wanted += r.Now.Want
		t.Short += r.Short
		for _, g := range r.Gives {
			if g.From == r.Cluster {
				t.Short -= min(t.Short, g.N) // others run these
			}
		}
		t.SLO = max(t.SLO, r.Now.SLO)
		if r.Now.Exec > 0 {
			work += r.Now.Exec.Std().Seconds() * r.Now.Rate
			known += r.Now.Rate
		}
	}
	if known > 0 {
		t.Exec = api.Duration(time.Duration(work / known * float64(time.Second)).Round(10 * time.Microsecond))
	}
	if t.SLO > 0 && t.Rate > 0 {
		within := min(1, max(0, 1-t.Refused/t.Rate))
		t.Within = &within
	}
	slices.Sort(t.Clusters)
}

func serviceTops() listing[serviceTop] {
	type view = serviceTop
	return listing[view]{kind: kindService, name: func(v view) string { return v.App + "." + v.Service },
		columns: []column[view]{
			{name: "service", cell: func(v view) cell { return text(v.App + "." + v.Service) }},
			{name: "rate", cell: func(v view) cell {
				if v.Fixed {
					return text("")
				}
				return text(perSecond(v.Rate))
			}},
			{name: "refused", cell: func(v view) cell { return orNone(int64(v.Refused*1000), perSecond(v.Refused)) }},
			{name: "waiting", cell: func(v view) cell {
				if v.Fixed {
					return text("")
				}
				return textf("%d", v.Waiting)
			}},
			{name: "works", cell: func(v view) cell { return orNone(int64(v.Exec), took(v.Exec.Std())) }},
			{name: "objective", cell: func(v view) cell { return orNone(int64(v.SLO), v.SLO.String()) }},
			{name: "within", cell: func(v view) cell {
				if v.Within == nil {
					return text("")
				}
				return text(fmt.Sprintf("%.1f%%", 100**v.Within))
			}},
			{name: "running", cell: func(v view) cell { return textf("%d/%d", v.Awake, v.Placed) }},
			{name: "wanted", cell: func(v view) cell { return textf("%d", v.Wanted) }},
			{name: "clusters", wide: true, cell: func(v view) cell { return textf("%d", len(v.Clusters)) }},
			{name: "message", cell: func(v view) cell {
				if v.Problem == "" && v.Short > 0 {
					return problem(fmt.Sprintf("no room for %d more", v.Short))
				}
				return problem(v.Problem)
			}},
		}}
}
