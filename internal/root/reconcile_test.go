// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package root

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records/clonetest"
	"github.com/verge-edge/verge/internal/wire"
)

func TestAnApplicationIsDelegatedAndHolds(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.apply("app", 3, nil)
	s.ticks(3, time.Second)
	v := s.m.appView(s.m.apps["app"])
	if !v.Holds || v.Services[0].Ready != 3 {
		t.Fatalf("%+v\n%s", v, s.dump())
	}
	if ready, _ := s.endpoints("app"); ready != 3 {
		t.Errorf("%d endpoints, want 3", ready)
	}
	i := s.m.insts["app.web.0"]
	var path []string
	for _, h := range i.History {
		path = append(path, string(h.To))
	}
	if got := strings.Join(path, " "); got != "Registered Requested ClusterScheduled" {
		t.Errorf("the root's part of the history is %s", got)
	}
}

func TestAffinityBinds(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.apply("a", 2, func(v *api.Service) { v.Affinity.Cluster = []string{"fog"} })
	s.apply("b", 2, func(v *api.Service) { v.Affinity.Area = []string{"area-edge"} })
	s.apply("c", 1, func(v *api.Service) { v.Affinity.Cluster = []string{"moon"} })
	s.ticks(3, time.Second)
	for id, want := range map[string]string{"a.web.0": "fog", "a.web.1": "fog", "b.web.0": "edge", "b.web.1": "edge", "c.web.0": ""} {
		if got := s.m.insts[id].Cluster; got != want {
			t.Errorf("%s is in %q, want %q", id, got, want)
		}
	}
	if i := s.m.insts["c.web.0"]; i.State != wire.Requested || !strings.Contains(i.Reason, "moon") {
		t.Errorf("%s: %q, want Requested for lack of cluster moon", i.State, i.Reason)
	}
	if v := s.m.appView(s.m.apps["c"]); v.Holds || !strings.Contains(v.Message, "moon") {
		t.Errorf("the application says %q", v.Message)
	}
}

func TestWhatAClusterGivesBackGoesElsewhere(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.fakes["fog"].linked = false
	s.tick(time.Second)
	s.apply("app", 4, nil)
	s.tick(time.Second)
	s.fakes["edge"].room = 2 // it has less than it said
	s.ticks(2, time.Second)
	s.fakes["fog"].linked = true
	s.ticks(40, time.Second)
	if n := s.running("app"); n != 4 || len(s.fakes["edge"].runs) != 2 || len(s.fakes["fog"].runs) != 2 {
		t.Fatalf("%d run\n%s", n, s.dump())
	}
}

// What may still run on a worker that is away is not taken from its cluster as long
// as nobody else could run it: it would be stopped when its worker is back.
func TestWhatNobodyElseCanRunIsLeftWhereItIs(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		s := newSim(t, "edge", "fog")
		s.fakes["fog"].room = 0
		s.apply("app", 1, nil)
		s.ticks(3, time.Second)
		s.fakes["edge"].lost = true
		s.ticks(100, time.Second)
		if i := s.m.insts["app.web.0"]; i.Cluster != "edge" || i.State != wire.ClusterScheduled || s.m.shares["edge.app.web"] == nil {
			t.Fatalf("it was taken away\n%s", s.dump())
		}
		if v := s.m.appView(s.m.apps["app"]); v.Holds || !strings.Contains(v.Message, "its worker is away") {
			t.Errorf("the application says %q", v.Message)
		}
		home := "edge"
		if elsewhere {
			s.fakes["fog"].room, home = 1, "fog"
		} else {
			s.fakes["edge"].lost = false
		}
		s.ticks(5, time.Second)
		if i := s.m.insts["app.web.0"]; i.Cluster != home || len(s.fakes[home].runs) != 1 || s.running("app") != 1 {
			t.Fatalf("elsewhere %v: it is not in %s\n%s", elsewhere, home, s.dump())
		}
	}
}

func TestARestartEmptiesNoRoute(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.apply("app", 3, nil)
	s.ticks(3, time.Second)
	for _, f := range s.fakes {
		f.linked = false
	}
	s.restart()
	s.ticks(3, time.Second)
	ready, suspect := s.endpoints("app")
	if ready+suspect != 3 {
		t.Fatalf("%d endpoints before anyone reported, want 3\n%s", ready+suspect, s.dump())
	}
	for _, f := range s.fakes {
		f.linked = true
	}
	s.ticks(3, time.Second)
	if ready, _ := s.endpoints("app"); ready != 3 || s.running("app") != 3 {
		t.Errorf("%d endpoints, %d run, want 3 and 3", ready, s.running("app"))
	}
}

func TestADeadClusterIsReplacedAndSettledOnReturn(t *testing.T) {
	for _, onReturn := range []string{"original", "replacement"} {
		t.Run(onReturn, func(t *testing.T) {
			s := newSim(t, "edge", "fog")
			s.apply("app", 2, func(v *api.Service) { v.OnReturn, v.Spread = onReturn, "none" })
			s.ticks(3, time.Second)
			home := s.m.insts["app.web.0"].Cluster
			s.fakes[home].linked = false
			s.ticks(50, time.Second)
			if n := s.running("app"); n != 2 {
				t.Fatalf("%d run before cluster-dead-after, want the 2 of before\n%s", n, s.dump())
			}
			if ready, suspect := s.endpoints("app"); ready != 0 || suspect != 2 {
				t.Errorf("%d ready, %d suspect endpoints, want 0 and 2", ready, suspect)
			}
			s.ticks(20, time.Second)
			if n := s.running("app"); n != 4 {
				t.Fatalf("%d run, want 2 cut off and 2 replacements\n%s", n, s.dump())
			}
			if ready, suspect := s.endpoints("app"); ready != 2 || suspect != 0 {
				t.Errorf("%d ready, %d suspect endpoints, want 2 and 0", ready, suspect)
			}
			if i := s.m.insts["app.web.2"]; i == nil || i.Replaces != "app.web.0" {
				t.Errorf("the replacement is %+v", i)
			}
			s.fakes[home].linked = true
			s.ticks(5, time.Second)
			if n := s.running("app"); n != 2 {
				t.Fatalf("%d run after the return, want 2\n%s", n, s.dump())
			}
			if stay := len(s.fakes[home].runs); (onReturn == "original") != (stay == 2) {
				t.Errorf("%d stay where they were\n%s", stay, s.dump())
			}
			if v := s.m.appView(s.m.apps["app"]); !v.Holds {
				t.Errorf("does not hold: %s", v.Message)
			}
		})
	}
}

// What only a dead cluster may run may be running there all the same: nothing else
// answers, so routers may try it.
func TestADeadClusterServesWhatNobodyReplaced(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.apply("app", 2, func(v *api.Service) { v.Affinity.Cluster = []string{"edge"} })
	s.ticks(3, time.Second)
	s.fakes["edge"].linked = false
	s.ticks(200, time.Second)
	if ready, suspect := s.endpoints("app"); ready != 0 || suspect != 2 {
		t.Errorf("%d ready, %d suspect endpoints, want 0 and 2\n%s", ready, suspect, s.dump())
	}
}

func TestDeletingWaitsForTheClusters(t *testing.T) {
	s := newSim(t, "edge")
	s.apply("app", 2, nil)
	s.ticks(3, time.Second)
	s.fakes["edge"].linked = false
	s.delete("app")
	s.ticks(3, time.Second)
	if s.m.apps["app"] == nil {
		t.Fatal("the application is gone while its cluster still runs it")
	}
	s.fakes["edge"].linked = true
	s.ticks(4, time.Second)
	if s.m.apps["app"] != nil || s.running("app") != 0 || len(s.m.insts)+len(s.m.shares)+len(s.m.routes) > 0 {
		t.Errorf("something is left\n%s", s.dump())
	}
}

func TestScalingKeepsWhatRuns(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.apply("app", 5, nil)
	s.ticks(3, time.Second)
	s.apply("app", 2, nil)
	s.ticks(4, time.Second)
	if s.running("app") != 2 || s.m.insts["app.web.0"] == nil || s.m.insts["app.web.1"] == nil || s.m.insts["app.web.2"] != nil {
		t.Errorf("scaled down to\n%s", s.dump())
	}
	s.apply("app", 4, nil)
	s.ticks(4, time.Second)
	if s.running("app") != 4 {
		t.Errorf("scaled up to\n%s", s.dump())
	}
}

// Whatever happens, in whatever order, no ordinal is ever delegated twice, and
// once all is well again everything that is wanted runs exactly once.
func TestAnyTroubleEndsWell(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		s := newSim(t, "c1", "c2", "c3")
		var shared clonetest.Records
		names := []string{"c1", "c2", "c3"}
		apps := map[string]int{}
		for range 100 {
			f := s.fakes[names[rng.IntN(3)]]
			app := []string{"a", "b"}[rng.IntN(2)]
			switch rng.IntN(11) {
			case 9:
				s.cordon(names[rng.IntN(3)], &wire.Cordon{Drain: rng.IntN(3) > 0})
			case 10:
				s.cordon(names[rng.IntN(3)], nil)
			case 8:
				s.again(app, rng.IntN(7)-1)
			case 0, 1:
				f.linked = !f.linked
			case 2, 3:
				if a := s.m.apps[app]; a == nil || a.Deleting.IsZero() {
					apps[app] = rng.IntN(6)
					keep := []string{"original", "replacement", "newest"}[rng.IntN(3)]
					in := [][]string{nil, {"c1", "c2"}, {"c3"}}[rng.IntN(3)]
					s.apply(app, apps[app], func(v *api.Service) { v.OnReturn, v.Affinity.Cluster = keep, in })
				}
			case 4:
				s.delete(app)
				apps[app] = 0
			case 5:
				f.room = rng.IntN(12)
			case 6:
				s.restart()
			}
			s.tick(time.Duration(rng.IntN(20000)) * time.Millisecond)
			if seed < 4 { // more costs too much
				for _, what := range shared.Check(s.m, immutable) {
					t.Fatalf("seed %d: what a plan shares %s", seed, what)
				}
			}
		}
		for _, f := range s.fakes {
			f.linked, f.room = true, 12
		}
		for _, name := range names {
			s.cordon(name, nil)
		}
		s.cordon("c1", &wire.Cordon{Drain: true})
		well := func() string { return s.well(apps) }
		for range 60 {
			if s.ticks(10, time.Second); well() == "" {
				break
			}
		}
		s.ticks(100, time.Second) // and it stays so
		if wrong := well(); wrong != "" {
			t.Fatalf("seed %d: %s\n%s", seed, wrong, s.dump())
		}
	}
}

// well says what is not as it should be when all clusters are there, with room for
// everything, and c1 is drained; apps are the instances that are wanted.
func (s *sim) well(apps map[string]int) string {
	if n := len(s.fakes["c1"].runs); n != 0 {
		return fmt.Sprintf("%d are left in the drained cluster", n)
	}
	for _, c := range s.m.clusters {
		for _, r := range c.seen {
			app := s.m.apps[r.App]
			if app == nil {
				return r.ID + " runs, its application is gone"
			}
			marks := app.Restarts
			if n := max(marks["web"].N, marks[fmt.Sprintf("web.%d", r.Ordinal)].N); r.Restarted < n {
				return fmt.Sprintf("%s is at restart %d of %d", r.ID, r.Restarted, n)
			}
		}
	}
	for _, i := range s.m.insts {
		app := s.m.apps[i.App]
		if app == nil {
			return i.ID + " is there, its application is gone"
		}
		if in := app.Spec.Services["web"].Affinity.Cluster; len(in) > 0 && !slices.Contains(in, i.Cluster) {
			return i.ID + " is where it may not be"
		}
	}
	for app, n := range apps {
		if got := s.running(app); got != n {
			return fmt.Sprintf("%d of %s run, want %d", got, app, n)
		}
		if ready, suspect := s.endpoints(app); ready != n || suspect != 0 {
			return fmt.Sprintf("%s has %d ready and %d suspect endpoints, want %d", app, ready, suspect, n)
		}
	}
	return ""
}

// A cluster that lies gets no traffic for what it was not given, and cannot keep
// others from being given it.
func TestAClusterSpeaksOnlyForWhatItWasGiven(t *testing.T) {
	s := newSim(t, "edge", "evil")
	s.apply("app", 1, func(v *api.Service) { v.Affinity.Cluster = []string{"edge"} })
	s.fakes["evil"].linked = true
	lie := &wire.Reported{Instance: wire.Instance{V: wire.Version, ID: "app.web.0", App: "app", Service: "web", State: wire.Running, Ready: true}, Address: "evil:1"}
	for range 4 {
		s.tick(time.Second)
		s.m.clusters["evil"].seen["app.web.0"] = lie
		s.now = s.now.Add(time.Second)
		tx := s.m.step(s.now)
		tx.Done()
	}
	r := s.m.routes["app.web"]
	if len(r.Endpoints) != 1 || r.Endpoints[0].Cluster != "edge" {
		t.Errorf("routes to %+v", r.Endpoints)
	}
}

// What a cluster could not run says nothing about another program, be it under
// the same name: a corrected descriptor must not wait for the sins of the old.
func TestACorrectedProgramIsAskedForAtOnce(t *testing.T) {
	for _, again := range []bool{false, true} { // applied over the old one, or after deleting it
		s := newSim(t, "edge")
		s.fakes["edge"].room = 1
		s.apply("app", 1, nil)
		s.tick(time.Second)
		s.fakes["edge"].runs["app.web.0"] = wire.Reported{Instance: wire.Instance{V: wire.Version, ID: "app.web.0", App: "app", Service: "web", State: wire.Requested, Revision: 1, Reason: "command not found"}}
		s.fakes["edge"].room = 0
		s.ticks(3, time.Second)
		if i := s.m.insts["app.web.0"]; i.State != wire.Requested || len(s.m.clusters["edge"].refused) != 1 {
			t.Fatalf("it was not refused\n%s", s.dump())
		}
		s.fakes["edge"].room = 5
		s.ticks(2, time.Second)
		if s.running("app") != 0 {
			t.Fatalf("the same program was asked for again at once\n%s", s.dump())
		}
		if again {
			s.delete("app")
			s.ticks(2, time.Second)
		}
		s.apply("app", 1, func(v *api.Service) { v.Command = []string{"right"} })
		s.ticks(3, time.Second)
		if s.running("app") != 1 {
			t.Errorf("deleted first %v: the corrected program does not run\n%s", again, s.dump())
		}
	}
}

// The root does not know which host paths a site's workers let be used: it is told
// by the clusters that cannot, and goes on to the next; where none can, it says why.
func TestHostPathsAreFoundByAsking(t *testing.T) {
	shared := func(v *api.Service) { v.Volumes = []api.Volume{{Path: "media", Host: "/srv/media"}} }
	s := newSim(t, "c1", "c2", "c3", "c4", "c5")
	s.fakes["c4"].paths = true
	s.fakes["c4"].room = 3
	s.apply("app", 3, shared)
	s.apply("other", 2, nil)
	s.ticks(20, time.Second)
	n := 0
	for _, r := range s.fakes["c4"].runs {
		if r.App == "app" && r.State == wire.Running {
			n++
		}
	}
	if n != 3 || s.running("app") != 3 || s.running("other") != 2 {
		t.Fatalf("%d run where they may, %d in all, %d of another\n%s", n, s.running("app"), s.running("other"), s.dump())
	}
	s = newSim(t, "c1", "c2")
	s.apply("app", 1, shared)
	s.ticks(20, time.Second)
	if i := s.m.insts["app.web.0"]; i.State != wire.Requested || !strings.Contains(i.Reason, "host path") {
		t.Fatalf("it is %s: %s", i.State, i.Reason)
	}
	s.fakes["c2"].paths = true // its operator allows it
	s.ticks(90, time.Second)
	if s.running("app") != 1 {
		t.Errorf("it was not asked for again\n%s", s.dump())
	}
}

// Half of the clusters are cut off for long enough that all they run is replaced, and go on
// running it: when they are back everything runs twice, and then once again, at the
// originals or the replacements, as each service says.
func TestTwiceAfterAPartition(t *testing.T) {
	s := newSim(t, "a", "b", "c", "d", "e", "f")
	for _, f := range s.fakes {
		f.room = 100
	}
	s.tick(time.Second)
	const apps, replicas = 12, 6
	name := func(n int) string { return fmt.Sprint("app-", n) }
	for n := range apps {
		s.apply(name(n), replicas, func(v *api.Service) { v.OnReturn = []string{"original", "replacement"}[n%2] })
	}
	s.ticks(5, time.Second)
	cut, before := []string{"a", "b", "c"}, map[string]bool{}
	for id, i := range s.m.insts {
		if slices.Contains(cut, i.Cluster) {
			before[id] = true
		}
	}
	if len(before) != apps*replicas/2 {
		t.Fatalf("%d of %d are in the half that is cut off\n%s", len(before), apps*replicas, s.dump())
	}
	for _, c := range cut {
		s.fakes[c].linked = false
	}
	s.ticks(100, time.Second)
	total := func() (n int) {
		for n0 := range apps {
			n += s.running(name(n0))
		}
		return n
	}
	if n := total(); n != apps*replicas*3/2 {
		t.Fatalf("%d run, want a half twice\n%s", n, s.dump())
	}
	for _, c := range cut {
		s.fakes[c].linked = true
	}
	for range 30 {
		s.tick(time.Second)
		for n := range apps {
			if ready, _ := s.endpoints(name(n)); ready < replicas {
				t.Fatalf("%s: %d answer while it is settled\n%s", name(n), ready, s.dump())
			}
		}
	}
	if n := total(); n != apps*replicas || len(s.m.insts) != apps*replicas {
		t.Fatalf("%d run, %d are kept, want %d\n%s", n, len(s.m.insts), apps*replicas, s.dump())
	}
	for id := range before {
		var n int
		if _, err := fmt.Sscanf(id, "app-%d.", &n); err != nil {
			t.Fatal(err)
		}
		if stays := s.m.insts[id] != nil; stays != (n%2 == 0) {
			t.Errorf("%s stays: %v", id, stays)
		}
	}
}
