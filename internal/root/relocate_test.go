// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package root

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// in counts the instances of an application that run in each cluster.
func (s *sim) in(app string) map[string]int {
	out := map[string]int{}
	for name, f := range s.fakes {
		for _, r := range f.runs {
			if r.App == app {
				out[name]++
			}
		}
	}
	return out
}

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
			s := newSim(t, "edge", "fog")
			s.fakes["fog"].room = 2
			s.tick(time.Second)
			s.apply("app", 5, nil)
			s.ticks(3, time.Second)
			before := s.in("app")
			if before["edge"] == 0 {
				t.Fatalf("%v", before)
			}
			s.fakes["fog"].room = 10
			s.tick(time.Second)
			stayed := map[string]bool{}
			for id := range s.fakes["fog"].runs {
				stayed[id] = true
			}
			s.apply("app", 5, change)
			if v := s.m.appView(s.m.apps["app"]); v.Holds {
				t.Error("it holds before anything has moved")
			}
			for range 20 {
				s.tick(time.Second)
				if ready, _ := s.endpoints("app"); ready < 5 || s.running("app") > 7 {
					t.Fatalf("%d answer and %d run while they move\n%s", ready, s.running("app"), s.dump())
				}
			}
			if got := s.in("app"); got["fog"] != 5 || got["edge"] != 0 {
				t.Errorf("%v\n%s", got, s.dump())
			}
			for id := range stayed {
				if _, ok := s.fakes["fog"].runs[id]; !ok {
					t.Errorf("%s did not stay", id)
				}
			}
			if v := s.m.appView(s.m.apps["app"]); !v.Holds {
				t.Errorf("it does not hold: %s", v.Message)
			}
		})
	}
}

// Where nobody can take what would have to move it goes on where it is, and the
// application says so.
func TestWhatCannotMoveGoesOn(t *testing.T) {
	s := newSim(t, "edge")
	s.apply("app", 2, nil)
	s.ticks(3, time.Second)
	s.apply("app", 2, func(v *api.Service) { v.Affinity.Cluster = []string{"moon"} })
	s.ticks(10, time.Second)
	if ready, _ := s.endpoints("app"); ready != 2 {
		t.Errorf("%d answer\n%s", ready, s.dump())
	}
	v := s.m.appView(s.m.apps["app"])
	if v.Holds || !strings.Contains(v.Message, "moves: cluster edge is not moon") {
		t.Errorf("holds %v: %s", v.Holds, v.Message)
	}
	// Fewer of them: those that would have to move go first.
	s.apply("app", 1, func(v *api.Service) { v.Affinity.Cluster = []string{"moon"} })
	s.ticks(3, time.Second)
	if n := s.running("app"); n != 1 {
		t.Errorf("%d run, want 1\n%s", n, s.dump())
	}
	s.apply("app", 2, nil)
	s.ticks(4, time.Second)
	if v := s.m.appView(s.m.apps["app"]); !v.Holds || s.running("app") != 2 {
		t.Errorf("%d run: %s\n%s", s.running("app"), v.Message, s.dump())
	}
}

// A volume keeps an instance: it is neither moved nor replaced when its cluster
// is away.
func TestAVolumeKeepsItsCluster(t *testing.T) {
	volume := func(v *api.Service) {
		v.Affinity.Cluster = []string{"edge"}
		v.Volumes = []api.Volume{{Path: "data", Name: "db"}}
	}
	s := newSim(t, "edge", "fog")
	s.apply("app", 1, volume)
	s.ticks(3, time.Second)
	s.apply("app", 1, func(v *api.Service) { volume(v); v.Affinity.Cluster = []string{"fog"} })
	s.ticks(5, time.Second)
	if got := s.in("app"); got["edge"] != 1 || got["fog"] != 0 {
		t.Errorf("moved: %v", got)
	}
	s.fakes["edge"].linked = false
	s.ticks(200, time.Second)
	if got := s.in("app"); got["fog"] != 0 || !s.m.insts["app.web.0"].Unreachable {
		t.Errorf("replaced: %v\n%s", got, s.dump())
	}
	s.fakes["edge"].linked = true
	s.ticks(3, time.Second)
	if i := s.m.insts["app.web.0"]; i.Unreachable || len(s.m.insts) != 1 {
		t.Errorf("after the return\n%s", s.dump())
	}
}

// A cluster that refused under one constraint is asked again under another.
func TestARefusalIsOfItsConstraints(t *testing.T) {
	s := newSim(t, "edge")
	s.tick(time.Second)
	s.apply("app", 2, func(v *api.Service) { v.Architecture = []string{"arm64"} })
	s.tick(time.Second)
	s.fakes["edge"].room = 0 // as if no worker of it satisfied that
	s.ticks(3, time.Second)
	if i := s.m.insts["app.web.0"]; i.Cluster != "" {
		t.Fatalf("not given back\n%s", s.dump())
	}
	s.fakes["edge"].room = 10
	s.apply("app", 2, nil)
	s.ticks(3, time.Second)
	if n := s.running("app"); n != 2 {
		t.Errorf("%d run\n%s", n, s.dump())
	}
}

// What is to make room in its cluster runs in another one before it ends, and its cluster
// is told that the root sees to it; where nobody else has room nothing is begun.
func TestWhoMakesRoomMovesToAnotherCluster(t *testing.T) {
	s := newSim(t, "a", "b")
	s.apply("app", 1, nil)
	s.ticks(3, time.Second)
	from := ""
	for name := range s.in("app") {
		from = name
	}
	other := map[string]string{"a": "b", "b": "a"}[from]
	share := func() *wire.Share { return s.m.shares[from+".app.web"] }
	if !share().Elsewhere || len(share().Replacing) > 0 {
		t.Fatalf("%+v", *share())
	}
	room := s.fakes[other].room
	s.fakes[other].room = 0
	s.ticks(3, time.Second)
	s.fakes[from].makes = "makes room for app.high.0"
	for range 30 {
		if s.tick(time.Second); s.running("app") != 1 || len(s.in("app")) != 1 || len(share().Replacing) > 0 {
			t.Fatalf("without room elsewhere\n%s", s.dump())
		}
	}
	s.fakes[other].room = room
	told, least := false, 1
	for range 30 {
		s.tick(time.Second)
		ready, _ := s.endpoints("app")
		least = min(least, ready)
		if sh := share(); sh != nil && len(sh.Replacing) == 1 {
			told = true
		}
		if s.running("app") > 2 {
			t.Fatalf("%d run\n%s", s.running("app"), s.dump())
		}
	}
	if in := s.in("app"); len(in) != 1 || in[other] == 0 || least < 1 || !told {
		t.Errorf("it is in %v, %d answered at least, told %v\n%s", in, least, told, s.dump())
	}
	// It does not come back at once, for the room that it made.
	s.fakes[from].makes = ""
	s.ticks(120, time.Second)
	if in := s.in("app"); len(in) != 1 || in[other] == 0 {
		t.Errorf("it is in %v\n%s", in, s.dump())
	}
}
