package recovery_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/edits"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/wire"
)

func TestARestoredClusterStopsNothingThatIsWanted(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2", "w3")
	s.Share("web", 2, nil)
	s.Ticks(3, time.Second)
	disk := maps.Clone(s.Disk)
	// After the backup: more of it, another service, and an update of the first.
	s.Share("web", 4, func(v *api.Service) { v.Env = map[string]string{"A": "2"} })
	s.Share("db", 3, nil)
	s.Ticks(15, time.Second)
	given, before := maps.Clone(s.Model.FromRoot), s.Processes()
	s.RestoreFrom(disk)
	s.Ticks(60, time.Second)
	if now := s.Processes(); !maps.Equal(now, before) || !s.Model.Silent("w1") {
		t.Fatalf("before the root was heard it ran\n%v and now\n%v", before, now)
	}
	s.HearRoot(given)
	s.Ticks(10, time.Second)
	if now := s.Processes(); !maps.Equal(now, before) {
		t.Fatalf("it ran\n%v and now\n%v\n%s", before, now, s.Dump())
	}
	if ready, _ := s.Endpoints("db"); ready != 3 || s.Model.Mark() != nil {
		t.Errorf("%d endpoints, mark %v", ready, s.Model.Mark())
	}
	// It goes on, with numbers that are new to the workers.
	s.Share("db", 3, func(v *api.Service) { v.Env = map[string]string{"A": "3"} })
	s.Ticks(15, time.Second)
	for o := range 3 {
		if i := s.Instance(fmt.Sprintf("app.db.%d", o)); i.Incarnation != 2 || !i.Ready {
			t.Errorf("%s: incarnation %d, ready %v", i.ID, i.Incarnation, i.Ready)
		}
	}
}

// A worker that is away holds up its own part only, and keeps what it has.
func TestARestoredClusterWaitsForItsWorkers(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Tick(time.Second)
	disk := maps.Clone(s.Disk)
	s.Share("web", 2, nil)
	s.Ticks(3, time.Second)
	given, before := maps.Clone(s.Model.FromRoot), s.Processes()
	s.RestoreFrom(disk)
	s.Workers["w2"].Linked = false
	s.HearRoot(given)
	s.Ticks(5, time.Second)
	if now := s.Processes(); !maps.Equal(now, before) {
		t.Fatalf("it ran\n%v and now\n%v\n%s", before, now, s.Dump())
	}
	s.Workers["w2"].Linked = true
	s.Ticks(5, time.Second)
	if now := s.Processes(); !maps.Equal(now, before) || s.Model.Mark() != nil {
		t.Fatalf("it ran\n%v and now\n%v\n%s", before, now, s.Dump())
	}
}

// Whatever was done after the backup: with all workers there nothing that is wanted
// is stopped, and in the end all that is wanted runs once.
func TestAnyBackupStopsNothing(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 13))
		s := clustertest.NewSim(t, "w1", "w2", "w3")
		var disk map[string][]byte
		at := rng.IntN(25)
		for n := range 25 {
			if n == at {
				disk = maps.Clone(s.Disk)
			}
			svc := []string{"a", "b"}[rng.IntN(2)]
			switch rng.IntN(4) {
			case 0, 1:
				mark := fmt.Sprint(rng.IntN(2))
				s.Share(svc, rng.IntN(5), func(v *api.Service) { v.Env = map[string]string{"R": mark} })
				// A revision that begins again says nothing about the program: then what
				// runs is started again, to be sure.
				sh := s.Model.FromRoot["app."+svc]
				sh.Revision = uint64(n + 1)
				s.Store(state.KeyShare+"app."+svc, sh)
				reconcile.Effect(s.Model)
			case 2:
				s.Unshare(svc)
			case 3:
				s.Restart()
			}
			s.Ticks(8, time.Second)
		}
		s.Ticks(30, time.Second)
		given, before := maps.Clone(s.Model.FromRoot), s.Processes()
		s.RestoreFrom(disk)
		s.HearRoot(given)
		s.Ticks(20, time.Second)
		if now := s.Processes(); !maps.Equal(now, before) {
			t.Fatalf("seed %d: it ran\n%v and now\n%v\n%s", seed, before, now, s.Dump())
		}
	}
}

func TestNothingIsEditedBeforeTheRootWasHeard(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Give(clustertest.Web(1, "a"), 1)
	state.MarkTable.Rows(s.Core.M.DB)[""] = &backup.Mark{V: wire.Version, At: s.Now}
	var p *wire.Problem
	if _, err := edits.ScaleLocal(t.Context(), s.Core, "app", "web", 2, s.Now); !errors.As(err, &p) ||
		p.Code != "recovering" {
		t.Errorf("%v", err)
	}
	if err := uplink.FinishRecovery(t.Context(), s.Core, "nobody", s.Now); !errors.As(err, &p) ||
		p.Code != "no-such-worker" {
		t.Errorf("%v", err)
	}
	if err := uplink.FinishRecovery(t.Context(), s.Core, "root", s.Now); err != nil {
		t.Fatal(err)
	}
	s.ScaleLocal(2)
	if len(s.Running()) != 2 {
		t.Errorf("it does not go on: %v", s.Running())
	}
}

// A new process places nothing for a moment while a worker has not been heard, which may prove
// that this cluster is an older copy; one that recovers waits until all have said what they have.
func TestNothingIsPlacedBeforeWorkersAreHeard(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 2, nil)
	s.Ticks(3, time.Second)
	placed := func() (n int) {
		for _, i := range s.Model.Insts {
			if i.Worker != "" {
				n++
			}
		}
		return n
	}
	s.Restart()
	s.Workers["w2"].Linked = false
	s.Share("web", 4, nil)
	if s.Ticks(4, time.Second); placed() != 2 {
		t.Fatalf("after 4 s\n%s", s.Dump())
	}
	if s.Ticks(2, time.Second); placed() != 4 {
		t.Fatalf("after 6 s\n%s", s.Dump())
	}
	s.RestoreFrom(maps.Clone(s.Disk))
	s.Model.RootHeard = true
	s.Model.Workers["w2"].EverHeard = true // and has not said what it has
	s.Share("web", 6, nil)
	if s.Ticks(20, time.Second); placed() != 4 {
		t.Fatalf("while one has not said what it has\n%s", s.Dump())
	}
	s.Workers["w2"].Linked = true
	if s.Ticks(4, time.Second); placed() != 6 {
		t.Fatalf("when all have\n%s", s.Dump())
	}
}
