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

// What a new revision allows elsewhere only moves there, one after the other, and
// none ends before another answers; what may stay stays.
func TestChangedAffinityMovesBetweenClusters(t *testing.T) {
	for name, change := range map[string]func(*api.Service){
		"cluster":    func(v *api.Service) { v.Affinity.Cluster = []string{"fog"} },
		"area":       func(v *api.Service) { v.Affinity.Area = []string{"area-fog", "moon"} },
		"no cluster": func(v *api.Service) { v.AntiAffinity.Cluster = []string{"edge"} },
		"no area":    func(v *api.Service) { v.AntiAffinity.Area = []string{"area-edge"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := roottest.NewSim(t, "edge", "fog")
			s.Clusters["fog"].Room = 2
			s.Tick(time.Second)
			s.Apply("app", 5, nil)
			s.Ticks(3, time.Second)
			before := s.RunningIn("app")
			if before["edge"] == 0 {
				t.Fatalf("%v", before)
			}
			s.Clusters["fog"].Room = 10
			s.Tick(time.Second)
			stayed := map[string]bool{}
			for id := range s.Clusters["fog"].Running {
				stayed[id] = true
			}
			s.Apply("app", 5, change)
			if v := status.Application(s.Model, s.Model.Apps["app"]); v.Holds {
				t.Error("it holds before anything has moved")
			}
			for range 20 {
				s.Tick(time.Second)
				if ready, _ := s.Endpoints("app"); ready < 5 || s.Running("app") > 7 {
					t.Fatalf("%d answer and %d run while they move\n%s", ready, s.Running("app"), s.Dump())
				}
			}
			if got := s.RunningIn("app"); got["fog"] != 5 || got["edge"] != 0 {
				t.Errorf("%v\n%s", got, s.Dump())
			}
			for id := range stayed {
				if _, ok := s.Clusters["fog"].Running[id]; !ok {
					t.Errorf("%s did not stay", id)
				}
			}
			if v := status.Application(s.Model, s.Model.Apps["app"]); !v.Holds {
				t.Errorf("it does not hold: %s", v.Message)
			}
		})
	}
}

// Where nobody can take what would have to move it goes on where it is, and the
// application says so.
func TestWhatCannotMoveGoesOn(t *testing.T) {
	s := roottest.NewSim(t, "edge")
	s.Apply("app", 2, nil)
	s.Ticks(3, time.Second)
	s.Apply("app", 2, func(v *api.Service) { v.Affinity.Cluster = []string{"moon"} })
	s.Ticks(10, time.Second)
	if ready, _ := s.Endpoints("app"); ready != 2 {
		t.Errorf("%d answer\n%s", ready, s.Dump())
	}
	v := status.Application(s.Model, s.Model.Apps["app"])
	if v.Holds || !strings.Contains(v.Message, "moves: cluster edge is not moon") {
		t.Errorf("holds %v: %s", v.Holds, v.Message)
	}
	// Fewer of them: those that would have to move go first.
	s.Apply("app", 1, func(v *api.Service) { v.Affinity.Cluster = []string{"moon"} })
	s.Ticks(3, time.Second)
	if n := s.Running("app"); n != 1 {
		t.Errorf("%d run, want 1\n%s", n, s.Dump())
	}
	s.Apply("app", 2, nil)
	s.Ticks(4, time.Second)
	if v := status.Application(s.Model, s.Model.Apps["app"]); !v.Holds || s.Running("app") != 2 {
		t.Errorf("%d run: %s\n%s", s.Running("app"), v.Message, s.Dump())
	}
}

// A volume keeps an instance: it is neither moved nor replaced when its cluster
// is away.
func TestAVolumeKeepsItsCluster(t *testing.T) {
	volume := func(v *api.Service) {
		v.Affinity.Cluster = []string{"edge"}
		v.Volumes = []api.Volume{{Path: "data", Name: "db"}}
	}
	s := roottest.NewSim(t, "edge", "fog")
	s.Apply("app", 1, volume)
	s.Ticks(3, time.Second)
	s.Apply("app", 1, func(v *api.Service) { volume(v); v.Affinity.Cluster = []string{"fog"} })
	s.Ticks(5, time.Second)
	if got := s.RunningIn("app"); got["edge"] != 1 || got["fog"] != 0 {
		t.Errorf("moved: %v", got)
	}
	s.Clusters["edge"].Linked = false
	s.Ticks(200, time.Second)
	if got := s.RunningIn("app"); got["fog"] != 0 || !s.Model.Insts["app.web.0"].Unreachable {
		t.Errorf("replaced: %v\n%s", got, s.Dump())
	}
	s.Clusters["edge"].Linked = true
	s.Ticks(3, time.Second)
	if i := s.Model.Insts["app.web.0"]; i.Unreachable || len(s.Model.Insts) != 1 {
		t.Errorf("after the return\n%s", s.Dump())
	}
}

// A cluster that refused under one constraint is asked again under another.
func TestARefusalIsOfItsConstraints(t *testing.T) {
	s := roottest.NewSim(t, "edge")
	s.Tick(time.Second)
	s.Apply("app", 2, func(v *api.Service) { v.Architecture = []string{"arm64"} })
	s.Tick(time.Second)
	s.Clusters["edge"].Room = 0 // as if no worker of it satisfied that
	s.Ticks(3, time.Second)
	if i := s.Model.Insts["app.web.0"]; i.Cluster != "" {
		t.Fatalf("not given back\n%s", s.Dump())
	}
	s.Clusters["edge"].Room = 10
	s.Apply("app", 2, nil)
	s.Ticks(3, time.Second)
	if n := s.Running("app"); n != 2 {
		t.Errorf("%d run\n%s", n, s.Dump())
	}
}

// What is to make room in its cluster runs in another one before it ends, and its cluster
// is told that the root sees to it; where nobody else has room nothing is begun.
func TestWhoMakesRoomMovesToAnotherCluster(t *testing.T) {
	s := roottest.NewSim(t, "a", "b")
	s.Apply("app", 1, nil)
	s.Ticks(3, time.Second)
	from := ""
	for name := range s.RunningIn("app") {
		from = name
	}
	other := map[string]string{"a": "b", "b": "a"}[from]
	share := func() *wire.Share { return s.Model.Shares[from+".app.web"] }
	if !share().Elsewhere || len(share().Replacing) > 0 {
		t.Fatalf("%+v", *share())
	}
	room := s.Clusters[other].Room
	s.Clusters[other].Room = 0
	s.Ticks(3, time.Second)
	s.Clusters[from].MakesRoomFor = "makes room for app.high.0"
	for range 30 {
		if s.Tick(time.Second); s.Running("app") != 1 || len(s.RunningIn("app")) != 1 || len(share().Replacing) > 0 {
			t.Fatalf("without room elsewhere\n%s", s.Dump())
		}
	}
	s.Clusters[other].Room = room
	told, least := false, 1
	for range 30 {
		s.Tick(time.Second)
		ready, _ := s.Endpoints("app")
		least = min(least, ready)
		if sh := share(); sh != nil && len(sh.Replacing) == 1 {
			told = true
		}
		if s.Running("app") > 2 {
			t.Fatalf("%d run\n%s", s.Running("app"), s.Dump())
		}
	}
	if in := s.RunningIn("app"); len(in) != 1 || in[other] == 0 || least < 1 || !told {
		t.Errorf("it is in %v, %d answered at least, told %v\n%s", in, least, told, s.Dump())
	}
	// It does not come back at once, for the room that it made.
	s.Clusters[from].MakesRoomFor = ""
	s.Ticks(120, time.Second)
	if in := s.RunningIn("app"); len(in) != 1 || in[other] == 0 {
		t.Errorf("it is in %v\n%s", in, s.Dump())
	}
}
