// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package root

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/wire"
)

// processes are what runs in all clusters.
func (s *sim) processes() map[string]string {
	out := map[string]string{}
	for name, f := range s.fakes {
		for id, r := range f.runs {
			if r.State == wire.Running {
				out[name+"/"+id] = fmt.Sprint(r.Revision)
			}
		}
	}
	return out
}

func TestARestoredRootEndsNothingAndLearnsWhatItLost(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.apply("old", 2, nil)
	s.apply("gone", 1, nil)
	s.ticks(3, time.Second)
	disk := s.copied()
	s.apply("late", 3, func(v *api.Service) { v.Env = map[string]string{"A": "1"} })
	s.apply("old", 4, func(v *api.Service) { v.Env = map[string]string{"A": "2"} })
	s.ticks(5, time.Second)
	before := s.processes()
	s.restored(disk)
	s.ticks(6, time.Second)
	after := s.processes()
	if !maps.Equal(before, after) {
		t.Fatalf("it ran\n%v and now\n%v\n%s", before, after, s.dump())
	}
	late, old := s.m.apps["late"], s.m.apps["old"]
	if late == nil || late.Recovered == nil || late.Revision != 1 || late.Spec.Services["web"].Env["A"] != "1" || late.Spec.Services["web"].Replicas.Min != 3 {
		t.Fatalf("late is %+v", late)
	}
	if old.Recovered == nil || old.Revision != 2 || old.Spec.Services["web"].Replicas.Min != 4 || s.m.apps["gone"].Recovered != nil {
		t.Errorf("old is %+v", old)
	}
	if spec, _, err := descriptor.Parse("", []byte(late.Source)); err != nil || spec.Application != "late" {
		t.Errorf("its descriptor cannot be read: %v\n%s", err, late.Source)
	}
	for _, app := range []string{"old", "late", "gone"} {
		if v := s.m.appView(s.m.apps[app]); !v.Holds {
			t.Errorf("%s does not hold: %s", app, v.Message)
		}
	}
	v := s.m.recoveryView(s.now)
	if v.Holding || len(v.Peers) != 2 || v.Peers[0].Asked.IsZero() || len(v.Applications) != 2 || len(recoveryProblems(v)) != 3 {
		t.Errorf("%+v %v", v, recoveryProblems(v))
	}
	// It goes on from there, also after a restart.
	s.restart()
	s.apply("late", 1, nil)
	s.apply("new", 2, nil)
	s.ticks(5, time.Second)
	if s.running("late") != 1 || s.running("new") != 2 || s.m.apps["late"].Revision != 2 {
		t.Errorf("it does not go on\n%s", s.dump())
	}
}

// Nothing is decided while a cluster may still say what it has; one that stays away
// keeps what it has, and is asked when it is back.
func TestARestoredRootWaitsForItsClusters(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.apply("old", 2, nil)
	s.ticks(3, time.Second)
	disk := s.copied()
	s.apply("late", 2, func(v *api.Service) { v.Affinity.Cluster = []string{"fog"} })
	s.ticks(3, time.Second)
	s.restored(disk)
	s.fakes["fog"].linked = false
	s.apply("new", 1, nil)
	before := s.processes()
	s.ticks(20, time.Second)
	if now := s.processes(); !maps.Equal(now, before) || !s.m.holding(s.now) || !s.m.silent("edge") {
		t.Fatalf("something was decided: %v, before %v", now, before)
	}
	s.ticks(60, time.Second)
	if s.m.holding(s.now) || s.running("new") != 1 || s.m.silent("edge") || !s.m.silent("fog") {
		t.Fatalf("it does not go on without the one that is dead\n%s", s.dump())
	}
	s.fakes["fog"].linked = true
	s.ticks(8, time.Second)
	if s.running("late") != 2 || s.m.apps["late"] == nil || s.m.silent("fog") {
		t.Errorf("what the returned one had is lost\n%s", s.dump())
	}
}

// An apply after the restore counts, under a revision that nobody has seen.
func TestAnApplyAfterTheRestoreCounts(t *testing.T) {
	s := newSim(t, "edge")
	s.apply("app", 1, nil)
	s.ticks(2, time.Second)
	disk := s.copied()
	for range 4 {
		s.apply("app", 2, func(v *api.Service) { v.Env = map[string]string{"A": fmt.Sprint(s.now.Unix())} })
		s.ticks(2, time.Second)
	}
	s.restored(disk)
	s.now = s.now.Add(time.Second)
	s.apply("app", 3, func(v *api.Service) { v.Env = map[string]string{"A": "mine"} })
	s.m.apps["app"].Applied = s.now
	s.ticks(6, time.Second)
	app := s.m.apps["app"]
	if app.Revision != 6 || app.Recovered != nil || app.Spec.Services["web"].Env["A"] != "mine" || s.running("app") != 3 {
		t.Errorf("revision %d, recovered %v, %d run\n%s", app.Revision, app.Recovered, s.running("app"), s.dump())
	}
}

// Whatever happened before and after the backup: what runs when the root is
// restored goes on, no ordinal is delegated twice, and in the end all that is wanted
// runs once.
func TestAnyBackupEndsNothing(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 11))
		s := newSim(t, "c1", "c2", "c3")
		var disk map[string][]byte
		at := 5 + rng.IntN(30)
		for n := range 50 {
			if n == at {
				disk = s.copied()
			}
			app := []string{"a", "b", "c"}[rng.IntN(3)]
			switch rng.IntN(5) {
			case 0, 1:
				if a := s.m.apps[app]; a == nil || a.Deleting.IsZero() {
					mark := fmt.Sprint(rng.IntN(3))
					s.apply(app, rng.IntN(5), func(v *api.Service) { v.Env = map[string]string{"R": mark} })
				}
			case 2:
				s.delete(app)
			case 3:
				s.restart()
			}
			s.ticks(3, time.Second)
		}
		for _, f := range s.fakes {
			f.room = 40
		}
		s.ticks(60, time.Second)
		before := s.processes()
		s.restored(disk)
		for range 30 {
			s.tick(time.Second)
			now := s.processes()
			for id := range before {
				if _, ok := now[id]; !ok {
					t.Fatalf("seed %d: %s was ended\n%s", seed, id, s.dump())
				}
			}
		}
		for name, app := range s.m.apps {
			if len(app.Unclaimed) > 0 { // deleted after the backup was made
				if s.running(name) > 0 {
					t.Fatalf("seed %d: %s was started\n%s", seed, name, s.dump())
				}
				continue
			}
			if n := s.running(name); app.Deleting.IsZero() && n != app.Spec.Services["web"].Replicas.Min {
				t.Fatalf("seed %d: %d of %s run, want %d\n%s", seed, n, name, app.Spec.Services["web"].Replicas.Min, s.dump())
			}
		}
	}
}

func TestWhatAClusterHoldsIsChecked(t *testing.T) {
	good := wire.Share{App: "app", Service: "web", Revision: 1, Spec: &api.Service{Command: []string{"x"}}, Ordinals: []wire.Span{{To: 2}}}
	if err := checkHeld(&good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(s *wire.Share){
		"name":      func(s *wire.Share) { s.App = "../x" },
		"service":   func(s *wire.Share) { s.Service = "" },
		"spec":      func(s *wire.Share) { s.Spec = nil },
		"revision":  func(s *wire.Share) { s.Revision = wire.LocalRevisions + 1 },
		"none":      func(s *wire.Share) { s.Revision = 0 },
		"ordinals":  func(s *wire.Share) { s.Ordinals = []wire.Span{{From: 5, To: 1}} },
		"local":     func(s *wire.Share) { s.Ordinals = []wire.Span{{From: wire.LocalOrdinals, To: wire.LocalOrdinals + 1}} },
		"many":      func(s *wire.Share) { s.Ordinals = []wire.Span{{To: api.MaxReplicas + 1}} },
		"too large": func(s *wire.Share) { s.Spec = &api.Service{Command: []string{strings.Repeat("x", 2<<20)}} },
	} {
		s := good
		change(&s)
		if checkHeld(&s) == nil {
			b, _ := json.Marshal(s)
			t.Errorf("%s: accepted: %.200s", name, b)
		}
	}
}
