package placement_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/status"
	"github.com/verge-edge/verge/internal/wire"
)

func TestAffinityBinds(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Apply("a", 2, func(v *api.Service) { v.Affinity.Cluster = []string{"fog"} })
	s.Apply("b", 2, func(v *api.Service) { v.Affinity.Area = []string{"area-edge"} })
	s.Apply("c", 1, func(v *api.Service) { v.Affinity.Cluster = []string{"moon"} })
	s.Ticks(3, time.Second)
	for id, want := range map[string]string{"a.web.0": "fog", "a.web.1": "fog", "b.web.0": "edge", "b.web.1": "edge",
		"c.web.0": ""} {
		if got := s.Model.Insts[id].Cluster; got != want {
			t.Errorf("%s is in %q, want %q", id, got, want)
		}
	}
	if i := s.Model.Insts["c.web.0"]; i.State != wire.Requested || !strings.Contains(i.Reason, "moon") {
		t.Errorf("%s: %q, want Requested for lack of cluster moon", i.State, i.Reason)
	}
	if v := status.Application(s.Model, s.Model.Apps["c"]); v.Holds || !strings.Contains(v.Message, "moon") {
		t.Errorf("the application says %q", v.Message)
	}
}

func TestWhatAClusterGivesBackGoesElsewhere(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Clusters["fog"].Linked = false
	s.Tick(time.Second)
	s.Apply("app", 4, nil)
	s.Tick(time.Second)
	s.Clusters["edge"].Room = 2 // it has less than it said
	s.Ticks(2, time.Second)
	s.Clusters["fog"].Linked = true
	s.Ticks(40, time.Second)
	if n := s.Running("app"); n != 4 || len(s.Clusters["edge"].Running) != 2 || len(s.Clusters["fog"].Running) != 2 {
		t.Fatalf("%d run\n%s", n, s.Dump())
	}
}

// What may still run on a worker that is away is not taken from its cluster as long
// as nobody else could run it: it would be stopped when its worker is back.
func TestWhatNobodyElseCanRunIsLeftWhereItIs(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		s := roottest.NewSim(t, "edge", "fog")
		s.Clusters["fog"].Room = 0
		s.Apply("app", 1, nil)
		s.Ticks(3, time.Second)
		s.Clusters["edge"].Lost = true
		s.Ticks(100, time.Second)
		if i := s.Model.Insts["app.web.0"]; i.Cluster != "edge" || i.State != wire.ClusterScheduled ||
			s.Model.Shares["edge.app.web"] == nil {
			t.Fatalf("it was taken away\n%s", s.Dump())
		}
		if v := status.Application(s.Model, s.Model.Apps["app"]); v.Holds ||
			!strings.Contains(v.Message, "its worker is away") {
			t.Errorf("the application says %q", v.Message)
		}
		home := "edge"
		if elsewhere {
			s.Clusters["fog"].Room, home = 1, "fog"
		} else {
			s.Clusters["edge"].Lost = false
		}
		s.Ticks(5, time.Second)
		if i := s.Model.Insts["app.web.0"]; i.Cluster != home || len(s.Clusters[home].Running) != 1 || s.Running("app") != 1 {
			t.Fatalf("elsewhere %v: it is not in %s\n%s", elsewhere, home, s.Dump())
		}
	}
}

// What a cluster could not run says nothing about another program, be it under
// the same name: a corrected descriptor must not wait for the sins of the old.
func TestACorrectedProgramIsAskedForAtOnce(t *testing.T) {
	for _, again := range []bool{false, true} { // applied over the old one, or after deleting it
		s := roottest.NewSim(t, "edge")
		s.Clusters["edge"].Room = 1
		s.Apply("app", 1, nil)
		s.Tick(time.Second)
		s.Clusters["edge"].Running["app.web.0"] = wire.Reported{Instance: wire.Instance{V: wire.Version, ID: "app.web.0",
			App: "app", Service: "web", State: wire.Requested, Revision: 1, Reason: "command not found"}}
		s.Clusters["edge"].Room = 0
		s.Ticks(3, time.Second)
		if i := s.Model.Insts["app.web.0"]; i.State != wire.Requested || len(s.Model.Clusters["edge"].Refused) != 1 {
			t.Fatalf("it was not refused\n%s", s.Dump())
		}
		s.Clusters["edge"].Room = 5
		s.Ticks(2, time.Second)
		if s.Running("app") != 0 {
			t.Fatalf("the same program was asked for again at once\n%s", s.Dump())
		}
		if again {
			s.Delete("app")
			s.Ticks(2, time.Second)
		}
		s.Apply("app", 1, func(v *api.Service) { v.Command = []string{"right"} })
		s.Ticks(3, time.Second)
		if s.Running("app") != 1 {
			t.Errorf("deleted first %v: the corrected program does not run\n%s", again, s.Dump())
		}
	}
}

// The root does not know which host paths a site's workers let be used: it is told
// by the clusters that cannot, and goes on to the next; where none can, it says why.
func TestHostPathsAreFoundByAsking(t *testing.T) {
	shared := func(v *api.Service) { v.Volumes = []api.Volume{{Path: "media", Host: "/srv/media"}} }
	s := roottest.NewSim(t, "c1", "c2", "c3", "c4", "c5")
	s.Clusters["c4"].HostPaths = true
	s.Clusters["c4"].Room = 3
	s.Apply("app", 3, shared)
	s.Apply("other", 2, nil)
	s.Ticks(20, time.Second)
	n := 0
	for _, r := range s.Clusters["c4"].Running {
		if r.App == "app" && r.State == wire.Running {
			n++
		}
	}
	if n != 3 || s.Running("app") != 3 || s.Running("other") != 2 {
		t.Fatalf("%d run where they may, %d in all, %d of another\n%s", n, s.Running("app"), s.Running("other"),
			s.Dump())
	}
	s = roottest.NewSim(t, "c1", "c2")
	s.Apply("app", 1, shared)
	s.Ticks(20, time.Second)
	if i := s.Model.Insts["app.web.0"]; i.State != wire.Requested || !strings.Contains(i.Reason, "host path") {
		t.Fatalf("it is %s: %s", i.State, i.Reason)
	}
	s.Clusters["c2"].HostPaths = true // its operator allows it
	s.Ticks(90, time.Second)
	if s.Running("app") != 1 {
		t.Errorf("it was not asked for again\n%s", s.Dump())
	}
}
