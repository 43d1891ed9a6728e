package placement_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/status"
	"github.com/verge-edge/verge/internal/wire"
)

func TestACordonedClusterIsGivenNothingNew(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Apply("app", 2, func(v *api.Service) { v.Affinity.Cluster = []string{"edge"} })
	s.Ticks(3, time.Second)
	s.Cordon("edge", &wire.Cordon{At: s.Now})
	s.Reopen()
	s.Apply("app", 3, func(v *api.Service) { v.Affinity.Cluster = []string{"edge"} })
	s.Apply("other", 4, nil)
	s.Ticks(3, time.Second)
	if n := s.Running("app"); n != 2 || len(s.Clusters["fog"].Running) != 4 {
		t.Fatalf("%d run\n%s", n, s.Dump())
	}
	if i := s.Model.Insts["app.web.2"]; i.State != wire.Requested || !strings.Contains(i.Reason, "1 is cordoned") {
		t.Errorf("%s: %s", i.State, i.Reason)
	}
	s.Cordon("edge", nil)
	s.Ticks(3, time.Second)
	if n := s.Running("app"); n != 3 {
		t.Errorf("%d run after it\n%s", n, s.Dump())
	}
}

// answering is how many instances of an application are ready in clusters that can
// be reached.
func answering(s *roottest.Sim, app string) (n int) {
	for _, f := range s.Clusters {
		for _, r := range f.Running {
			if f.Linked && r.App == app && r.State == wire.Running && r.Ready {
				n++
			}
		}
	}
	return n
}

// whole ticks n times, and fails if fewer than want instances answer, or are in
// the route.
func whole(s *roottest.Sim, n, want int) {
	s.T.Helper()
	for range n {
		s.Tick(time.Second)
		ready, _ := s.Endpoints("app")
		if got := answering(s, "app"); got < want || ready < want {
			s.T.Fatalf("%d of %d answer, %d are in the route\n%s", got, want, ready, s.Dump())
		}
	}
}

func TestADrainOfAClusterMovesMakeBeforeBreak(t *testing.T) {
	for _, replicas := range []int{1, 5} {
		s := roottest.NewSim(t, "edge", "fog", "cloud")
		s.Clusters["edge"].Room = 5
		s.Cordon("fog", &wire.Cordon{})
		s.Cordon("cloud", &wire.Cordon{})
		s.Apply("app", replicas, nil)
		s.Ticks(3, time.Second)
		s.Cordon("fog", nil)
		s.Cordon("cloud", nil)
		s.Cordon("edge", &wire.Cordon{Drain: true})
		most := 0
		for n := range 40 {
			whole(s, 1, replicas)
			most = max(most, len(s.Model.Insts))
			if n == 3 {
				s.Reopen()
				s.Tick(time.Second)
			}
		}
		if n := len(s.Clusters["edge"].Running); n != 0 || s.Running("app") != replicas || len(s.Model.Insts) != replicas {
			t.Fatalf("%d are left, %d run\n%s", n, s.Running("app"), s.Dump())
		}
		if most > replicas+2 { // one more that starts, one that ends
			t.Errorf("there were up to %d at a time", most)
		}
		for _, i := range s.Model.Insts {
			if i.Replaces == "" || i.Cluster == "edge" {
				t.Errorf("%+v", i)
			}
		}
		if v := clusters.DrainView(s.Model, "edge", s.Now); len(v.Left) != 0 || v.Cordon == nil {
			t.Errorf("%+v", v)
		}
	}
}

// Where nothing else has room, what runs stays, and is not ended by the end of the
// drain either.
func TestADrainOfAClusterWithoutRoomElsewhere(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Clusters["fog"].Room = 1
	s.Cordon("fog", &wire.Cordon{})
	s.Apply("app", 3, nil)
	s.Apply("db", 1, func(v *api.Service) { v.Volumes = []api.Volume{{Name: "data", Path: "data"}} })
	s.Ticks(3, time.Second)
	s.Cordon("fog", nil)
	s.Cordon("edge", &wire.Cordon{Drain: true})
	whole(s, 30, 3)
	v := clusters.DrainView(s.Model, "edge", s.Now)
	if len(v.Left) != 3 || len(s.Clusters["fog"].Running) != 1 {
		t.Fatalf("%+v\n%s", v, s.Dump())
	}
	for _, i := range v.Left {
		want := "1 is cordoned"
		if strings.HasPrefix(i.Instance, "db.") {
			want = "volume"
		}
		if i.State != "stays" || !strings.Contains(i.Why, want) {
			t.Errorf("%+v, want %s", i, want)
		}
	}
	if a := status.Application(s.Model, s.Model.Apps["app"]); !a.Holds {
		t.Errorf("it has what it promises: %s", a.Message)
	}
	before := len(s.Clusters["edge"].Running)
	s.Cordon("edge", nil)
	whole(s, 10, 3)
	if len(s.Clusters["edge"].Running) != before || s.Running("app") != 3 || len(s.Model.Insts) != 4 {
		t.Errorf("after the end of the drain\n%s", s.Dump())
	}
	// There is room again.
	s.Clusters["fog"].Room = 10
	s.Cordon("edge", &wire.Cordon{Drain: true})
	whole(s, 60, 3)
	if v := clusters.DrainView(s.Model, "edge", s.Now); len(v.Left) != 1 {
		t.Errorf("%+v\n%s", v, s.Dump())
	}
}

// A cluster that is lost while it is drained, and comes back, does not get back
// what was moved.
func TestADrainedClusterThatComesBack(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Cordon("fog", &wire.Cordon{})
	s.Apply("app", 3, nil)
	s.Ticks(3, time.Second)
	s.Cordon("fog", nil)
	s.Clusters["fog"].Stuck = true
	s.Cordon("edge", &wire.Cordon{Drain: true})
	s.Ticks(2, time.Second)
	s.Clusters["edge"].Linked = false
	s.Tick(time.Second)
	if v := clusters.DrainView(s.Model, "edge", s.Now); len(v.Left) != 3 || v.Left[2].State != "waiting" ||
		!strings.Contains(v.Left[2].Why, "away") {
		t.Errorf("%+v", v)
	}
	s.Ticks(90, time.Second)
	if n := len(s.Clusters["fog"].Running); n != 3 {
		t.Fatalf("%d run in the other cluster\n%s", n, s.Dump())
	}
	s.Clusters["edge"].Linked = true
	s.Ticks(20, time.Second)
	if n := s.Running("app"); n != 3 || len(s.Clusters["edge"].Running) != 0 {
		t.Errorf("%d run\n%s", n, s.Dump())
	}
}
