package reconcile_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records/clonetest"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/status"
	"github.com/verge-edge/verge/internal/wire"
)

func TestAnApplicationIsDelegatedAndHolds(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Apply("app", 3, nil)
	s.Ticks(3, time.Second)
	v := status.Application(s.Model, s.Model.Apps["app"])
	if !v.Holds || v.Services[0].Ready != 3 {
		t.Fatalf("%+v\n%s", v, s.Dump())
	}
	if ready, _ := s.Endpoints("app"); ready != 3 {
		t.Errorf("%d endpoints, want 3", ready)
	}
	i := s.Model.Insts["app.web.0"]
	var path []string
	for _, h := range i.History {
		path = append(path, string(h.To))
	}
	if got := strings.Join(path, " "); got != "Registered Requested ClusterScheduled" {
		t.Errorf("the root's part of the history is %s", got)
	}
}

func TestScalingKeepsWhatRuns(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Apply("app", 5, nil)
	s.Ticks(3, time.Second)
	s.Apply("app", 2, nil)
	s.Ticks(4, time.Second)
	if s.Running("app") != 2 || s.Model.Insts["app.web.0"] == nil || s.Model.Insts["app.web.1"] == nil ||
		s.Model.Insts["app.web.2"] != nil {
		t.Errorf("scaled down to\n%s", s.Dump())
	}
	s.Apply("app", 4, nil)
	s.Ticks(4, time.Second)
	if s.Running("app") != 4 {
		t.Errorf("scaled up to\n%s", s.Dump())
	}
}

// Whatever happens, in whatever order, no ordinal is ever delegated twice, and
// once all is well again everything that is wanted runs exactly once.
func TestAnyTroubleEndsWell(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		s := roottest.NewSim(t, "c1", "c2", "c3")
		var shared clonetest.Records
		names := []string{"c1", "c2", "c3"}
		apps := map[string]int{}
		for range 100 {
			f := s.Clusters[names[rng.IntN(3)]]
			app := []string{"a", "b"}[rng.IntN(2)]
			switch rng.IntN(11) {
			case 9:
				s.Cordon(names[rng.IntN(3)], &wire.Cordon{Drain: rng.IntN(3) > 0})
			case 10:
				s.Cordon(names[rng.IntN(3)], nil)
			case 8:
				s.Restart(app, rng.IntN(7)-1)
			case 0, 1:
				f.Linked = !f.Linked
			case 2, 3:
				if a := s.Model.Apps[app]; a == nil || a.Deleting.IsZero() {
					apps[app] = rng.IntN(6)
					keep := []string{"original", "replacement", "newest"}[rng.IntN(3)]
					in := [][]string{nil, {"c1", "c2"}, {"c3"}}[rng.IntN(3)]
					s.Apply(app, apps[app], func(v *api.Service) { v.OnReturn, v.Affinity.Cluster = keep, in })
				}
			case 4:
				s.Delete(app)
				apps[app] = 0
			case 5:
				f.Room = rng.IntN(12)
			case 6:
				s.Reopen()
			}
			s.Tick(time.Duration(rng.IntN(20000)) * time.Millisecond)
			if seed < 4 { // more costs too much
				for _, what := range shared.Check(s.Model, roottest.Immutable) {
					t.Fatalf("seed %d: what a plan shares %s", seed, what)
				}
			}
		}
		for _, f := range s.Clusters {
			f.Linked, f.Room = true, 12
		}
		for _, name := range names {
			s.Cordon(name, nil)
		}
		s.Cordon("c1", &wire.Cordon{Drain: true})
		well := func() string { return well(s, apps) }
		for range 60 {
			if s.Ticks(10, time.Second); well() == "" {
				break
			}
		}
		s.Ticks(100, time.Second) // and it stays so
		if wrong := well(); wrong != "" {
			t.Fatalf("seed %d: %s\n%s", seed, wrong, s.Dump())
		}
	}
}

// well says what is not as it should be when all clusters are there, with room for
// everything, and c1 is drained; apps are the instances that are wanted.
func well(s *roottest.Sim, apps map[string]int) string {
	if n := len(s.Clusters["c1"].Running); n != 0 {
		return fmt.Sprintf("%d are left in the drained cluster", n)
	}
	for _, c := range s.Model.Clusters {
		for _, r := range c.Seen {
			app := s.Model.Apps[r.App]
			if app == nil {
				return r.ID + " runs, its application is gone"
			}
			marks := app.Restarts
			if n := max(marks["web"].N, marks[fmt.Sprintf("web.%d", r.Ordinal)].N); r.Restarted < n {
				return fmt.Sprintf("%s is at restart %d of %d", r.ID, r.Restarted, n)
			}
		}
	}
	for _, i := range s.Model.Insts {
		app := s.Model.Apps[i.App]
		if app == nil {
			return i.ID + " is there, its application is gone"
		}
		if in := app.Spec.Services["web"].Affinity.Cluster; len(in) > 0 && !slices.Contains(in, i.Cluster) {
			return i.ID + " is where it may not be"
		}
	}
	for app, n := range apps {
		if got := s.Running(app); got != n {
			return fmt.Sprintf("%d of %s run, want %d", got, app, n)
		}
		if ready, suspect := s.Endpoints(app); ready != n || suspect != 0 {
			return fmt.Sprintf("%s has %d ready and %d suspect endpoints, want %d", app, ready, suspect, n)
		}
	}
	return ""
}

// Half of the clusters are cut off for long enough that all they run is replaced, and go on
// running it: when they are back everything runs twice, and then once again, at the
// originals or the replacements, as each service says.
func TestTwiceAfterAPartition(t *testing.T) {
	s := roottest.NewSim(t, "a", "b", "c", "d", "e", "f")
	for _, f := range s.Clusters {
		f.Room = 100
	}
	s.Tick(time.Second)
	const apps, replicas = 12, 6
	name := func(n int) string { return fmt.Sprint("app-", n) }
	for n := range apps {
		s.Apply(name(n), replicas, func(v *api.Service) { v.OnReturn = []string{"original", "replacement"}[n%2] })
	}
	s.Ticks(5, time.Second)
	cut, before := []string{"a", "b", "c"}, map[string]bool{}
	for id, i := range s.Model.Insts {
		if slices.Contains(cut, i.Cluster) {
			before[id] = true
		}
	}
	if len(before) != apps*replicas/2 {
		t.Fatalf("%d of %d are in the half that is cut off\n%s", len(before), apps*replicas, s.Dump())
	}
	for _, c := range cut {
		s.Clusters[c].Linked = false
	}
	s.Ticks(100, time.Second)
	total := func() (n int) {
		for n0 := range apps {
			n += s.Running(name(n0))
		}
		return n
	}
	if n := total(); n != apps*replicas*3/2 {
		t.Fatalf("%d run, want a half twice\n%s", n, s.Dump())
	}
	for _, c := range cut {
		s.Clusters[c].Linked = true
	}
	for range 30 {
		s.Tick(time.Second)
		for n := range apps {
			if ready, _ := s.Endpoints(name(n)); ready < replicas {
				t.Fatalf("%s: %d answer while it is settled\n%s", name(n), ready, s.Dump())
			}
		}
	}
	if n := total(); n != apps*replicas || len(s.Model.Insts) != apps*replicas {
		t.Fatalf("%d run, %d are kept, want %d\n%s", n, len(s.Model.Insts), apps*replicas, s.Dump())
	}
	for id := range before {
		var n int
		if _, err := fmt.Sscanf(id, "app-%d.", &n); err != nil {
			t.Fatal(err)
		}
		if stays := s.Model.Insts[id] != nil; stays != (n%2 == 0) {
			t.Errorf("%s stays: %v", id, stays)
		}
	}
}
