package routes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/routes"
	"github.com/verge-edge/verge/internal/policy/coord"
	"github.com/verge-edge/verge/internal/wire"
)

// Of a service that goes by distance and has more workers than a router measures, routers are
// told where they are, as estimates by which their distances are about right; of others not.
// The workers that serve and use it measure each other for that, the rest does not.
func TestRoutersAreToldWhereManyWorkersAre(t *testing.T) {
	for _, c := range []struct {
		policy   string
		replicas int
		told     bool
	}{
		{api.PolicyClosest, coord.PerService + 2, true},
		{api.PolicyRoundRobin, coord.PerService + 2, false},
		{api.PolicyClosest, coord.PerService, false},
	} {
		var names []string
		for n := range coord.PerService + 2 {
			names = append(names, fmt.Sprintf("w%d", 5*n))
		}
		s, e := clustertest.NewSimWithNetwork(t, append(names, "w7", "w8")...)
		for _, name := range []string{"w7", "w8"} {
			s.Cordon(name, &wire.Cordon{}) // they have no instances
			use := &wire.Uses{}
			if name == "w7" {
				use.Services = []string{"app.web"}
			}
			marks, err := routes.MarksOf(use)
			if err != nil {
				t.Fatal(err)
			}
			tx := s.Model.Begin()
			routes.SetUses(tx, name, marks)
			if _, err := tx.Encode(); err != nil {
				t.Fatal(err)
			}
			tx.Done()
		}
		s.Share("web", c.replicas, func(a *api.Service) {
			a.Ports = []api.Port{{Name: "http", Protocol: "http"}}
			a.Policy = api.Policy{Name: c.policy}.Filled()
			a.Scheduler = "spread"
		})
		e.Run(3*coord.Rounds, time.Second)
		if n := s.Running("web"); n != c.replicas {
			t.Fatalf("%d of %d run", n, c.replicas)
		}
		in := routes.InCrowds(s.Model)
		if in["w7"] != c.told || in["w8"] || c.told != (e.Asked > 0) {
			t.Errorf("%+v: %v are asked, %d times", c, in, e.Asked)
		}
		r := s.Model.Routes["app.web"]
		for i := range r.Endpoints {
			a, b := &r.Endpoints[0], &r.Endpoints[i]
			p, ok := coord.FromShort(a.At)
			q, also := coord.FromShort(b.At)
			if ok != c.told || also != c.told {
				t.Errorf("%+v: %v, %v", c, a.At, b.At)
				break
			}
			want := clustertest.Apart(a.Worker, b.Worker)
			if d := p.Distance(q); c.told && i > 0 && (d < want/3 || d > 3*want) {
				t.Errorf("from %s to %s %v, estimated %v", a.Worker, b.Worker, want, d)
			}
		}
		// It is told once, not with each measurement.
		if !c.told {
			continue
		}
		before := fmt.Sprint(r.Endpoints)
		e.Run(60, time.Second)
		if now := fmt.Sprint(s.Model.Routes["app.web"].Endpoints); now != before {
			t.Error("routers are told anew within a minute")
		}
		s.Restart()
		s.Tick(time.Second)
		if now := fmt.Sprint(s.Model.Routes["app.web"].Endpoints); now != before {
			t.Error("another process of the cluster has forgotten where they are")
		}
	}
}

// Nobody waits for what only routers need: a large cluster is not asked all at once.
func TestPlacesAreAskedForLittleByLittle(t *testing.T) {
	var names []string
	for n := range 150 {
		names = append(names, fmt.Sprintf("w%d", n))
	}
	s, e := clustertest.NewSimWithNetwork(t, names...)
	s.Share("web", len(names), func(a *api.Service) {
		a.Ports = []api.Port{{Name: "http", Protocol: "http"}}
		a.Policy = api.Policy{Name: api.PolicyClosest}.Filled()
	})
	for range 40 {
		before := e.Asked
		e.Run(1, time.Second)
		if n := e.Asked - before; n > 120 {
			t.Fatalf("%d questions in a second", n)
		}
	}
	told := 0
	for _, e := range s.Model.Routes["app.web"].Endpoints {
		if e.At != nil {
			told++
		}
	}
	if told < len(names)/2 {
		t.Errorf("routers know where %d of %d are", told, len(names))
	}
}
