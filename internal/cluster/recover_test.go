// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// processes are what runs, with how often each worker has started anything.
func (s *sim) processes() map[string]int {
	out := map[string]int{}
	for name, f := range s.fakes {
		for id, st := range f.has {
			if st.Phase == wire.PhaseRunning {
				out[name+"/"+id] = st.Incarnation
			}
		}
		out[name+" starts"] = f.starts
	}
	return out
}

func TestARestoredClusterStopsNothingThatIsWanted(t *testing.T) {
	s := newSim(t, "w1", "w2", "w3")
	s.share("web", 2, nil)
	s.ticks(3, time.Second)
	disk := maps.Clone(s.disk)
	// After the backup: more of it, another service, and an update of the first.
	s.share("web", 4, func(v *api.Service) { v.Env = map[string]string{"A": "2"} })
	s.share("db", 3, nil)
	s.ticks(15, time.Second)
	given, before := maps.Clone(s.m.Given), s.processes()
	s.restored(disk)
	s.ticks(60, time.Second)
	if now := s.processes(); !maps.Equal(now, before) || !s.m.Silent("w1") {
		t.Fatalf("before the root was heard it ran\n%v and now\n%v", before, now)
	}
	s.hear(given)
	s.ticks(10, time.Second)
	if now := s.processes(); !maps.Equal(now, before) {
		t.Fatalf("it ran\n%v and now\n%v\n%s", before, now, s.dump())
	}
	if ready, _ := s.endpoints("db"); ready != 3 || s.m.Mark() != nil {
		t.Errorf("%d endpoints, mark %v", ready, s.m.Mark())
	}
	// It goes on, with numbers that are new to the workers.
	s.share("db", 3, func(v *api.Service) { v.Env = map[string]string{"A": "3"} })
	s.ticks(15, time.Second)
	for o := range 3 {
		if i := s.inst(fmt.Sprintf("app.db.%d", o)); i.Incarnation != 2 || !i.Ready {
			t.Errorf("%s: incarnation %d, ready %v", i.ID, i.Incarnation, i.Ready)
		}
	}
}

// A worker that is away holds up its own part only, and keeps what it has.
func TestARestoredClusterWaitsForItsWorkers(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.tick(time.Second)
	disk := maps.Clone(s.disk)
	s.share("web", 2, nil)
	s.ticks(3, time.Second)
	given, before := maps.Clone(s.m.Given), s.processes()
	s.restored(disk)
	s.fakes["w2"].linked = false
	s.hear(given)
	s.ticks(5, time.Second)
	if now := s.processes(); !maps.Equal(now, before) {
		t.Fatalf("it ran\n%v and now\n%v\n%s", before, now, s.dump())
	}
	s.fakes["w2"].linked = true
	s.ticks(5, time.Second)
	if now := s.processes(); !maps.Equal(now, before) || s.m.Mark() != nil {
		t.Fatalf("it ran\n%v and now\n%v\n%s", before, now, s.dump())
	}
}

// Whatever was done after the backup: with all workers there nothing that is wanted
// is stopped, and in the end all that is wanted runs once.
func TestAnyBackupStopsNothing(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 13))
		s := newSim(t, "w1", "w2", "w3")
		var disk map[string][]byte
		at := rng.IntN(25)
		for n := range 25 {
			if n == at {
				disk = maps.Clone(s.disk)
			}
			svc := []string{"a", "b"}[rng.IntN(2)]
			switch rng.IntN(4) {
			case 0, 1:
				mark := fmt.Sprint(rng.IntN(2))
				s.share(svc, rng.IntN(5), func(v *api.Service) { v.Env = map[string]string{"R": mark} })
				// A revision that begins again says nothing about the program: then what
				// runs is started again, to be sure.
				sh := s.m.Given["app."+svc]
				sh.Revision = uint64(n + 1)
				s.store(state.KeyShare+"app."+svc, sh)
				s.m.effect()
			case 2:
				s.unshare(svc)
			case 3:
				s.restart()
			}
			s.ticks(8, time.Second)
		}
		s.ticks(30, time.Second)
		given, before := maps.Clone(s.m.Given), s.processes()
		s.restored(disk)
		s.hear(given)
		s.ticks(20, time.Second)
		if now := s.processes(); !maps.Equal(now, before) {
			t.Fatalf("seed %d: it ran\n%v and now\n%v\n%s", seed, before, now, s.dump())
		}
	}
}

func TestNothingIsEditedBeforeTheRootWasHeard(t *testing.T) {
	s := newSite(t)
	s.give(web(1, "a"), 1)
	state.MarkTable.Rows(s.c.m.DB)[""] = &backup.Mark{V: wire.Version, At: s.now}
	var p *wire.Problem
	if _, err := s.c.scaleLocal(t.Context(), "app", "web", 2, s.now); !errors.As(err, &p) || p.Code != "recovering" {
		t.Errorf("%v", err)
	}
	if err := s.c.finishRecovery(t.Context(), "nobody", s.now); !errors.As(err, &p) || p.Code != "no-such-worker" {
		t.Errorf("%v", err)
	}
	if err := s.c.finishRecovery(t.Context(), "root", s.now); err != nil {
		t.Fatal(err)
	}
	s.scale(2)
	if len(s.marks()) != 2 {
		t.Errorf("it does not go on: %v", s.marks())
	}
}

// A new process places nothing for a moment while a worker has not been heard, which may prove
// that this cluster is an older copy; one that recovers waits until all have said what they have.
func TestNothingIsPlacedBeforeWorkersAreHeard(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.share("web", 2, nil)
	s.ticks(3, time.Second)
	placed := func() (n int) {
		for _, i := range s.m.Insts {
			if i.Worker != "" {
				n++
			}
		}
		return n
	}
	s.restart()
	s.fakes["w2"].linked = false
	s.share("web", 4, nil)
	if s.ticks(4, time.Second); placed() != 2 {
		t.Fatalf("after 4 s\n%s", s.dump())
	}
	if s.ticks(2, time.Second); placed() != 4 {
		t.Fatalf("after 6 s\n%s", s.dump())
	}
	s.restored(maps.Clone(s.disk))
	s.m.Recovery.Heard = true
	s.m.Workers["w2"].EverHeard = true // and has not said what it has
	s.share("web", 6, nil)
	if s.ticks(20, time.Second); placed() != 4 {
		t.Fatalf("while one has not said what it has\n%s", s.dump())
	}
	s.fakes["w2"].linked = true
	if s.ticks(4, time.Second); placed() != 6 {
		t.Fatalf("when all have\n%s", s.dump())
	}
}
