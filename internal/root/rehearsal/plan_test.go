package rehearsal_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/planner"
	"github.com/verge-edge/verge/internal/root/rehearsal"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// plan rehearses an apply in which the clusters answer as the fakes would act;
// those in silent do not answer.
func plan(s *roottest.Sim, name string, replicas int, change func(*api.Service), silent ...string) apiv1.Plan {
	s.T.Helper()
	before := roottest.Text(s.T, s.Model)
	c := &core.Core{M: s.Model, RecordStore: bustest.NewMemStore()}
	shadow := &roottest.Sim{T: s.T, Model: &state.Model{Apps: maps.Clone(s.Model.Apps)}, Disk: map[string][]byte{}}
	shadow.Apply(name, replicas, change)
	r, out, err := planner.Rehearse(context.Background(), c,
		func(*state.Model) (*record.Application, apiv1.ApplyResult, error) {
			return shadow.Model.Apps[name], apiv1.ApplyResult{Name: name}, nil
		}, s.Now)
	if err != nil {
		s.T.Fatal(err)
	}
	err = r.Run(context.Background(), func(_ context.Context, qs map[string]rpc.PlanAsk) map[string]*rehearsal.Site {
		sites := map[string]*rehearsal.Site{}
		for name, q := range qs {
			sites[name] = &rehearsal.Site{Plan: sitePlan(s.Clusters[name], name, q)}
			if slices.Contains(silent, name) {
				sites[name] = &rehearsal.Site{Err: errors.New("it does not answer")}
			}
		}
		return sites
	})
	if err != nil {
		s.T.Fatal(err)
	}
	r.Close(&out)
	if after := roottest.Text(s.T, s.Model); after != before {
		s.T.Fatalf("a plan has changed something:\n%s\n%s", before, after)
	}
	return out
}

// sitePlan is what a fake would do, see act.
func sitePlan(f *roottest.Cluster, name string, q rpc.PlanAsk) rpc.SitePlan {
	out := rpc.SitePlan{V: wire.Version}
	room, wanted := f.Room, map[string]bool{}
	for _, sh := range q.Shares {
		for _, sp := range sh.Ordinals {
			for o := sp.From; o < sp.To; o++ {
				wanted[state.InstanceID(sh.App, sh.Service, o)] = true
			}
		}
	}
	for id, r := range f.Running {
		if r.App != q.App && r.State == wire.Running || wanted[id] && r.State == wire.Running {
			room--
		}
	}
	for _, id := range records.SortedKeys(wanted) {
		p := rpc.InstancePlan{ID: id, Service: "web", Action: rpc.PlanKeep, From: name, To: name, State: wire.Running}
		if r, ok := f.Running[id]; !ok || r.State != wire.Running {
			p.Action, p.From = rpc.PlanStart, ""
			if room--; room < 0 {
				p.Action, p.To, p.State, p.Why = rpc.PlanWait, "", wire.Requested, "full"
			}
		}
		out.Instances = append(out.Instances, p)
	}
	return out
}

// where the instances of an application run, by id.
func where(s *roottest.Sim, app string) map[string]string {
	out := map[string]string{}
	for name, f := range s.Clusters {
		for id, r := range f.Running {
			if r.App == app && r.State == wire.Running {
				out[id] = name
			}
		}
	}
	return out
}

// What a plan says of clusters, also of those that give something back, comes so.
func TestAPlanIsWhatIsDone(t *testing.T) {
	for name, c := range map[string]struct {
		rooms  map[string]int // after the clusters have told of more
		from   int
		to     int
		change func(*api.Service)
		starts int
		stops  int
		waits  int
	}{
		"new":        {nil, 0, 3, nil, 3, 0, 0},
		"more":       {nil, 2, 5, nil, 3, 0, 0},
		"fewer":      {nil, 5, 2, nil, 0, 3, 0},
		"gone":       {nil, 2, 0, nil, 0, 2, 0},
		"the same":   {nil, 2, 2, nil, 0, 0, 0},
		"given back": {map[string]int{"c1": 1}, 0, 4, nil, 4, 0, 0},
		// Together: which of the waiting a cluster takes first differs where each has some.
		"no room at all": {map[string]int{"c1": 1, "c2": 2}, 0, 5, func(svc *api.Service) { svc.Spread = "none" }, 3,
			0, 2},
		"relocated":  {nil, 2, 2, func(svc *api.Service) { svc.Affinity.Cluster = []string{"c2"} }, 1, 1, 0},
		"nobody may": {nil, 0, 2, func(svc *api.Service) { svc.Affinity.Area = []string{"nowhere"} }, 0, 0, 2},
	} {
		s := roottest.NewSim(t, "c1", "c2")
		s.Ticks(2, time.Second)
		if c.from > 0 {
			s.Apply("app", c.from, nil)
			s.Ticks(6, time.Second)
		}
		for name, room := range c.rooms {
			s.Clusters[name].Room, s.Clusters[name].ClaimedRoom = room, 10-room
		}
		p := plan(s, "app", c.to, c.change)
		if p.Starts != c.starts || p.Stops != c.stops || p.Waits != c.waits || p.Restarts != 0 ||
			p.Placed != (c.waits == 0) {
			t.Errorf("%s: %d start, %d stop, %d wait, %d restart\n%+v\n%s", name, p.Starts, p.Stops, p.Waits,
				p.Restarts, p.Instances, p.Notes)
		}
		s.Apply("app", c.to, c.change)
		s.Ticks(20, time.Second)
		is := where(s, "app")
		for _, i := range p.Instances {
			want := i.To
			if got := is[i.ID]; got != want {
				t.Errorf("%s: %s was to %s at %q, and runs at %q", name, i.ID, i.Action, want, got)
			}
			if i.Action == rpc.PlanWait && i.Why == "" {
				t.Errorf("%s: %s waits without a reason", name, i.ID)
			}
			if i.Action == rpc.PlanStart && len(i.Decisions) == 0 {
				t.Errorf("%s: no decision about %s", name, i.ID)
			}
		}
		for _, site := range p.Sites {
			if !site.Asked {
				t.Errorf("%s: %+v", name, site)
			}
		}
	}
}

// A cluster that cannot be asked is said so, with what the root knows.
func TestAPlanWithoutAClustersWord(t *testing.T) {
	s := roottest.NewSim(t, "c1", "c2")
	s.Ticks(2, time.Second)
	s.Apply("app", 2, nil)
	s.Ticks(6, time.Second)
	other := func(svc *api.Service) { svc.Command = []string{"y"} }
	p := plan(s, "app", 3, other, "c1", "c2")
	if p.Restarts != 2 || p.Starts != 1 || !p.Placed {
		t.Errorf("%+v", p)
	}
	for _, site := range p.Sites {
		if site.Asked || site.Why != "it does not answer" || site.AgeSeconds < 0 {
			t.Errorf("%+v", site)
		}
	}
	home := where(s, "app")["app.web.0"]
	s.Clusters[home].Linked = false
	s.Ticks(2, time.Second)
	p = plan(s, "app", 3, nil)
	if len(p.Sites) == 0 || p.Starts != 1 || !p.Placed {
		t.Fatalf("%+v", p)
	}
	for _, site := range p.Sites {
		if site.Cluster == home && (site.Asked || site.Why != "it is away" || site.AgeSeconds <= 0) {
			t.Errorf("%+v", site)
		}
	}
	for _, i := range p.Instances {
		if i.Action == rpc.PlanStart && i.To == home {
			t.Errorf("%+v", i)
		}
	}
}

// What a cluster answers is no more believed than what it reports.
func TestAPlanOfAHostileCluster(t *testing.T) {
	s := &rehearsal.Site{Plan: rpc.SitePlan{Instances: []rpc.InstancePlan{{ID: "app.web.0", Service: "web",
		To: "other/w1", Why: strings.Repeat("x", 1<<20)}}, Notes: make([]string, 100)}}
	if err := s.Check("app", "bad"); err != nil || s.Plan.Instances[0].To != "bad" ||
		len(s.Plan.Instances[0].Why) > 2*state.MaxWords || len(s.Plan.Notes) != 10 {
		t.Errorf("%v, %+v", err, s.Plan.Notes)
	}
	s = &rehearsal.Site{Plan: rpc.SitePlan{Instances: []rpc.InstancePlan{{ID: "else.web.0", Service: "web"}}}}
	if err := s.Check("app", "bad"); err == nil {
		t.Error("an answer about another application was taken")
	}
}
