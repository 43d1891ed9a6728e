package root

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/bus/records/clonetest"
	"github.com/verge-edge/verge/internal/wire"
)

// everything is all that a root knows, as text, but what it has worked out of the rest and
// remembers.
func everything(t *testing.T, m *model) string {
	t.Helper()
	return clonetest.Text(m, func(at string, t reflect.Type) bool {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		return at == "model.index" || path.Base(t.PkgPath()) == "table" && immutable(at, t)
	})
}

// plan rehearses an apply in which the clusters answer as the fakes would act;
// those in silent do not answer.
func (s *sim) plan(name string, replicas int, change func(*api.Service), silent ...string) wire.Plan {
	s.t.Helper()
	before := everything(s.t, s.m)
	c := &core{m: s.m, store: bus.NewMemStore()}
	shadow := &sim{t: s.t, m: &model{apps: maps.Clone(s.m.apps)}, disk: map[string][]byte{}}
	shadow.apply(name, replicas, change)
	r, out, err := c.rehearse(context.Background(), func(*model) (*wire.Application, wire.ApplyResult, error) {
		return shadow.m.apps[name], wire.ApplyResult{Name: name}, nil
	}, s.now)
	if err != nil {
		s.t.Fatal(err)
	}
	err = r.run(context.Background(), func(_ context.Context, qs map[string]wire.PlanAsk) map[string]*site {
		sites := map[string]*site{}
		for name, q := range qs {
			sites[name] = &site{plan: s.fakes[name].plan(name, q)}
			if slices.Contains(silent, name) {
				sites[name] = &site{err: errors.New("it does not answer")}
			}
		}
		return sites
	})
	if err != nil {
		s.t.Fatal(err)
	}
	r.close(&out)
	if after := everything(s.t, s.m); after != before {
		s.t.Fatalf("a plan has changed something:\n%s\n%s", before, after)
	}
	return out
}

// plan is what a fake would do, see act.
func (f *fake) plan(name string, q wire.PlanAsk) wire.SitePlan {
	out := wire.SitePlan{V: wire.Version}
	room, wanted := f.room, map[string]bool{}
	for _, sh := range q.Shares {
		for _, sp := range sh.Ordinals {
			for o := sp.From; o < sp.To; o++ {
				wanted[instanceID(sh.App, sh.Service, o)] = true
			}
		}
	}
	for id, r := range f.runs {
		if r.App != q.App && r.State == wire.Running || wanted[id] && r.State == wire.Running {
			room--
		}
	}
	for _, id := range records.SortedKeys(wanted) {
		p := wire.InstancePlan{ID: id, Service: "web", Action: wire.PlanKeep, From: name, To: name, State: wire.Running}
		if r, ok := f.runs[id]; !ok || r.State != wire.Running {
			p.Action, p.From = wire.PlanStart, ""
			if room--; room < 0 {
				p.Action, p.To, p.State, p.Why = wire.PlanWait, "", wire.Requested, "full"
			}
		}
		out.Instances = append(out.Instances, p)
	}
	return out
}

// where the instances of an application run, by id.
func (s *sim) where(app string) map[string]string {
	out := map[string]string{}
	for name, f := range s.fakes {
		for id, r := range f.runs {
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
		"no room at all": {map[string]int{"c1": 1, "c2": 2}, 0, 5, func(svc *api.Service) { svc.Spread = "none" }, 3, 0, 2},
		"relocated":      {nil, 2, 2, func(svc *api.Service) { svc.Affinity.Cluster = []string{"c2"} }, 1, 1, 0},
		"nobody may":     {nil, 0, 2, func(svc *api.Service) { svc.Affinity.Area = []string{"nowhere"} }, 0, 0, 2},
	} {
		s := newSim(t, "c1", "c2")
		s.ticks(2, time.Second)
		if c.from > 0 {
			s.apply("app", c.from, nil)
			s.ticks(6, time.Second)
		}
		for name, room := range c.rooms {
			s.fakes[name].room, s.fakes[name].boasts = room, 10-room
		}
		p := s.plan("app", c.to, c.change)
		if p.Starts != c.starts || p.Stops != c.stops || p.Waits != c.waits || p.Restarts != 0 || p.Placed != (c.waits == 0) {
			t.Errorf("%s: %d start, %d stop, %d wait, %d restart\n%+v\n%s", name, p.Starts, p.Stops, p.Waits, p.Restarts, p.Instances, p.Notes)
		}
		s.apply("app", c.to, c.change)
		s.ticks(20, time.Second)
		is := s.where("app")
		for _, i := range p.Instances {
			want := i.To
			if got := is[i.ID]; got != want {
				t.Errorf("%s: %s was to %s at %q, and runs at %q", name, i.ID, i.Action, want, got)
			}
			if i.Action == wire.PlanWait && i.Why == "" {
				t.Errorf("%s: %s waits without a reason", name, i.ID)
			}
			if i.Action == wire.PlanStart && len(i.Decisions) == 0 {
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
	s := newSim(t, "c1", "c2")
	s.ticks(2, time.Second)
	s.apply("app", 2, nil)
	s.ticks(6, time.Second)
	other := func(svc *api.Service) { svc.Command = []string{"y"} }
	p := s.plan("app", 3, other, "c1", "c2")
	if p.Restarts != 2 || p.Starts != 1 || !p.Placed {
		t.Errorf("%+v", p)
	}
	for _, site := range p.Sites {
		if site.Asked || site.Why != "it does not answer" || site.AgeSeconds < 0 {
			t.Errorf("%+v", site)
		}
	}
	home := s.where("app")["app.web.0"]
	s.fakes[home].linked = false
	s.ticks(2, time.Second)
	p = s.plan("app", 3, nil)
	if len(p.Sites) == 0 || p.Starts != 1 || !p.Placed {
		t.Fatalf("%+v", p)
	}
	for _, site := range p.Sites {
		if site.Cluster == home && (site.Asked || site.Why != "it is away" || site.AgeSeconds <= 0) {
			t.Errorf("%+v", site)
		}
	}
	for _, i := range p.Instances {
		if i.Action == wire.PlanStart && i.To == home {
			t.Errorf("%+v", i)
		}
	}
}

// What a cluster answers is no more believed than what it reports.
func TestAPlanOfAHostileCluster(t *testing.T) {
	s := &site{plan: wire.SitePlan{Instances: []wire.InstancePlan{{ID: "app.web.0", Service: "web", To: "other/w1", Why: strings.Repeat("x", 1<<20)}}, Notes: make([]string, 100)}}
	if err := s.check("app", "bad"); err != nil || s.plan.Instances[0].To != "bad" || len(s.plan.Instances[0].Why) > 2*maxWords || len(s.plan.Notes) != 10 {
		t.Errorf("%v, %+v", err, s.plan.Notes)
	}
	s = &site{plan: wire.SitePlan{Instances: []wire.InstancePlan{{ID: "else.web.0", Service: "web"}}}}
	if err := s.check("app", "bad"); err == nil {
		t.Error("an answer about another application was taken")
	}
}

// Through the whole interface: a plan is refused as an apply is, and stores nothing.
func TestAPlanChangesNothing(t *testing.T) {
	ctx := access.With(context.Background(), access.Who{Name: "admin", Admin: true})
	store := bus.NewMemStore()
	b := newTestBackend(t, store)
	look := func() string {
		return everything(t, b.m) + fmt.Sprint(store.Rev(), b.events.After(ctx, 0, 0))
	}
	before := look()
	p, err := b.Plan(ctx, []byte(shop))
	if err != nil || p.Change != "created" || p.Revision != 1 || p.Changes != 2 || p.Waits != 4 || p.Placed || p.Namespace != "default" {
		t.Fatalf("%+v, %v", p, err)
	}
	if !strings.Contains(p.Instances[0].Why, "no cluster has joined yet") {
		t.Errorf("%+v", p.Instances[0])
	}
	if look() != before {
		t.Error("it has changed something")
	}
	if _, err := b.Plan(ctx, []byte("application: x\nservices: 7\n")); code(err) != "invalid-descriptor" {
		t.Error(err)
	}
	if _, err := b.Plan(ctx, []byte("application: x\nnamespace: none\nservices: {a: {command: [x]}}\n")); code(err) != "no-such-namespace" {
		t.Error(err)
	}
	if _, err := b.CreateNamespace(ctx, wire.NamespaceRequest{Name: "small", Quota: wire.Quota{Instances: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Plan(ctx, []byte("application: x\nnamespace: small\nservices: {a: {command: [x], replicas: 2}}\n")); code(err) != "over-quota" {
		t.Error(err)
	}
	if _, err := b.Apply(ctx, []byte(shop), false); err != nil {
		t.Fatal(err)
	}
	before = look()
	p, err = b.Plan(ctx, []byte(strings.Replace(shop, "replicas: 3", "replicas: 1", 1)))
	if err != nil || p.Change != "updated" || p.Revision != 2 || p.Changes != 1 || p.Services[1].Change != wire.ServiceScaled || p.Services[0].Change != wire.ServiceUnchanged {
		t.Errorf("%+v, %v", p, err)
	}
	if look() != before {
		t.Error("it has changed something")
	}
}
