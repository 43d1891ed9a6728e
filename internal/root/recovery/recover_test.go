package recovery_test

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
	"github.com/verge-edge/verge/internal/root/recovery"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/status"
	"github.com/verge-edge/verge/internal/wire"
)

// processes are what runs in all clusters.
func processes(s *roottest.Sim) map[string]string {
	out := map[string]string{}
	for name, f := range s.Clusters {
		for id, r := range f.Running {
			if r.State == wire.Running {
				out[name+"/"+id] = fmt.Sprint(r.Revision)
			}
		}
	}
	return out
}

func TestARestoredRootEndsNothingAndLearnsWhatItLost(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Apply("old", 2, nil)
	s.Apply("gone", 1, nil)
	s.Ticks(3, time.Second)
	disk := s.Backup()
	s.Apply("late", 3, func(v *api.Service) { v.Env = map[string]string{"A": "1"} })
	s.Apply("old", 4, func(v *api.Service) { v.Env = map[string]string{"A": "2"} })
	s.Ticks(5, time.Second)
	before := processes(s)
	s.RestoreFrom(disk)
	s.Ticks(6, time.Second)
	after := processes(s)
	if !maps.Equal(before, after) {
		t.Fatalf("it ran\n%v and now\n%v\n%s", before, after, s.Dump())
	}
	late, old := s.Model.Apps["late"], s.Model.Apps["old"]
	if late == nil || late.Recovered == nil || late.Revision != 1 || late.Spec.Services["web"].Env["A"] != "1" ||
		late.Spec.Services["web"].Replicas.Min != 3 {
		t.Fatalf("late is %+v", late)
	}
	if old.Recovered == nil || old.Revision != 2 || old.Spec.Services["web"].Replicas.Min != 4 ||
		s.Model.Apps["gone"].Recovered != nil {
		t.Errorf("old is %+v", old)
	}
	if spec, _, err := descriptor.Parse("", []byte(late.Source)); err != nil || spec.Application != "late" {
		t.Errorf("its descriptor cannot be read: %v\n%s", err, late.Source)
	}
	for _, app := range []string{"old", "late", "gone"} {
		if v := status.Application(s.Model, s.Model.Apps[app]); !v.Holds {
			t.Errorf("%s does not hold: %s", app, v.Message)
		}
	}
	v := recovery.View(s.Model, s.Now)
	if v.Holding || len(v.Peers) != 2 || v.Peers[0].Asked.IsZero() || len(v.Applications) != 2 ||
		len(recovery.Problems(v)) != 3 {
		t.Errorf("%+v %v", v, recovery.Problems(v))
	}
	// It goes on from there, also after a restart.
	s.Reopen()
	s.Apply("late", 1, nil)
	s.Apply("new", 2, nil)
	s.Ticks(5, time.Second)
	if s.Running("late") != 1 || s.Running("new") != 2 || s.Model.Apps["late"].Revision != 2 {
		t.Errorf("it does not go on\n%s", s.Dump())
	}
}

// Nothing is decided while a cluster may still say what it has; one that stays away
// keeps what it has, and is asked when it is back.
func TestARestoredRootWaitsForItsClusters(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Apply("old", 2, nil)
	s.Ticks(3, time.Second)
	disk := s.Backup()
	s.Apply("late", 2, func(v *api.Service) { v.Affinity.Cluster = []string{"fog"} })
	s.Ticks(3, time.Second)
	s.RestoreFrom(disk)
	s.Clusters["fog"].Linked = false
	s.Apply("new", 1, nil)
	before := processes(s)
	s.Ticks(20, time.Second)
	if now := processes(s); !maps.Equal(now, before) || !recovery.Holding(s.Model, s.Now) ||
		!recovery.Silent(s.Model, "edge") {
		t.Fatalf("something was decided: %v, before %v", now, before)
	}
	s.Ticks(60, time.Second)
	if recovery.Holding(s.Model, s.Now) || s.Running("new") != 1 || recovery.Silent(s.Model, "edge") ||
		!recovery.Silent(s.Model, "fog") {
		t.Fatalf("it does not go on without the one that is dead\n%s", s.Dump())
	}
	s.Clusters["fog"].Linked = true
	s.Ticks(8, time.Second)
	if s.Running("late") != 2 || s.Model.Apps["late"] == nil || recovery.Silent(s.Model, "fog") {
		t.Errorf("what the returned one had is lost\n%s", s.Dump())
	}
}

// An apply after the restore counts, under a revision that nobody has seen.
func TestAnApplyAfterTheRestoreCounts(t *testing.T) {
	s := roottest.NewSim(t, "edge")
	s.Apply("app", 1, nil)
	s.Ticks(2, time.Second)
	disk := s.Backup()
	for range 4 {
		s.Apply("app", 2, func(v *api.Service) { v.Env = map[string]string{"A": fmt.Sprint(s.Now.Unix())} })
		s.Ticks(2, time.Second)
	}
	s.RestoreFrom(disk)
	s.Now = s.Now.Add(time.Second)
	s.Apply("app", 3, func(v *api.Service) { v.Env = map[string]string{"A": "mine"} })
	s.Model.Apps["app"].Applied = s.Now
	s.Ticks(6, time.Second)
	app := s.Model.Apps["app"]
	if app.Revision != 6 || app.Recovered != nil || app.Spec.Services["web"].Env["A"] != "mine" ||
		s.Running("app") != 3 {
		t.Errorf("revision %d, recovered %v, %d run\n%s", app.Revision, app.Recovered, s.Running("app"), s.Dump())
	}
}

// Whatever happened before and after the backup: what runs when the root is
// restored goes on, no ordinal is delegated twice, and in the end all that is wanted
// runs once.
func TestAnyBackupEndsNothing(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 11))
		s := roottest.NewSim(t, "c1", "c2", "c3")
		var disk map[string][]byte
		at := 5 + rng.IntN(30)
		for n := range 50 {
			if n == at {
				disk = s.Backup()
			}
			app := []string{"a", "b", "c"}[rng.IntN(3)]
			switch rng.IntN(5) {
			case 0, 1:
				if a := s.Model.Apps[app]; a == nil || a.Deleting.IsZero() {
					mark := fmt.Sprint(rng.IntN(3))
					s.Apply(app, rng.IntN(5), func(v *api.Service) { v.Env = map[string]string{"R": mark} })
				}
			case 2:
				s.Delete(app)
			case 3:
				s.Reopen()
			}
			s.Ticks(3, time.Second)
		}
		for _, f := range s.Clusters {
			f.Room = 40
		}
		s.Ticks(60, time.Second)
		before := processes(s)
		s.RestoreFrom(disk)
		for range 30 {
			s.Tick(time.Second)
			now := processes(s)
			for id := range before {
				if _, ok := now[id]; !ok {
					t.Fatalf("seed %d: %s was ended\n%s", seed, id, s.Dump())
				}
			}
		}
		for name, app := range s.Model.Apps {
			if len(app.Unclaimed) > 0 { // deleted after the backup was made
				if s.Running(name) > 0 {
					t.Fatalf("seed %d: %s was started\n%s", seed, name, s.Dump())
				}
				continue
			}
			if n := s.Running(name); app.Deleting.IsZero() && n != app.Spec.Services["web"].Replicas.Min {
				t.Fatalf("seed %d: %d of %s run, want %d\n%s", seed, n, name, app.Spec.Services["web"].Replicas.Min,
					s.Dump())
			}
		}
	}
}

func TestWhatAClusterHoldsIsChecked(t *testing.T) {
	good := wire.Share{App: "app", Service: "web", Revision: 1, Spec: &api.Service{Command: []string{"x"}},
		Ordinals: []wire.Span{{To: 2}}}
	if err := recovery.CheckHeld(&good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(s *wire.Share){
		"name":     func(s *wire.Share) { s.App = "../x" },
		"service":  func(s *wire.Share) { s.Service = "" },
		"spec":     func(s *wire.Share) { s.Spec = nil },
		"revision": func(s *wire.Share) { s.Revision = wire.LocalRevisions + 1 },
		"none":     func(s *wire.Share) { s.Revision = 0 },
		"ordinals": func(s *wire.Share) { s.Ordinals = []wire.Span{{From: 5, To: 1}} },
		"local": func(s *wire.Share) {
			s.Ordinals = []wire.Span{{From: wire.LocalOrdinals,
				To: wire.LocalOrdinals + 1}}
		},
		"many":      func(s *wire.Share) { s.Ordinals = []wire.Span{{To: api.MaxReplicas + 1}} },
		"too large": func(s *wire.Share) { s.Spec = &api.Service{Command: []string{strings.Repeat("x", 2<<20)}} },
	} {
		s := good
		change(&s)
		if recovery.CheckHeld(&s) == nil {
			b, _ := json.Marshal(s)
			t.Errorf("%s: accepted: %.200s", name, b)
		}
	}
}
