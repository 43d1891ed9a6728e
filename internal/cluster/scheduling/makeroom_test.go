package scheduling_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/placement"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// tight is two workers, of which only w1 could take what asks for 800, and then not what
// runs there (low, 300), for which w2 has room.
func tight(t *testing.T) *clustertest.Sim {
	t.Helper()
	s := clustertest.NewSim(t, "w1", "w2")
	s.SetCPU(1000)
	s.Model.Workers["w2"].Info.Capacity.CPU = 500
	s.Store(state.KeyWorker+"w2", s.Model.Workers["w2"].WorkerRecord)
	s.Share("filler", 1, clustertest.Rank(9, 450)) // best fit: on w2
	s.Ticks(4, time.Second)
	s.Share("low", 1, clustertest.Rank(0, 300))
	s.Ticks(4, time.Second)
	s.Unshare("filler")
	s.Ticks(4, time.Second)
	if i := s.Instance("app.low.0"); i.Worker != "w1" || s.Answering("low") != 1 {
		t.Fatalf("low is on %q\n%s", i.Worker, s.Dump())
	}
	return s
}

// Who has to make room is started where there is room before it ends.
func TestWhoIsDisplacedMovesFirst(t *testing.T) {
	s := tight(t)
	s.Workers["w2"].Slow = 3
	s.Share("high", 1, clustertest.Rank(5, 800))
	said := false
	for range 20 {
		s.Ticks(1, time.Second)
		if s.Answering("low") != 1 {
			t.Fatalf("low was interrupted\n%s", s.Dump())
		}
		if i := s.Instance("app.high.0"); strings.Contains(i.Reason, "displaces app.low.0 on worker w1") &&
			strings.Contains(i.Reason, "1 of 1 first starts on another worker") {
			said = true
		}
	}
	low, high := s.Instance("app.low.0"), s.Instance("app.high.0")
	if low.Worker != "w2" || high.Worker != "w1" || s.Answering("high") != 1 || !said {
		t.Fatalf("low on %q, high on %q, said %v\n%s", low.Worker, high.Worker, said, s.Dump())
	}
	why := ""
	for _, h := range low.History {
		if why += h.Why + "\n"; h.To == wire.Failed {
			t.Errorf("low failed: %s", h.Why)
		}
	}
	if !strings.Contains(why, "moved to another worker: makes room for app.high.0, which has priority 5") {
		t.Errorf("low says %q", why)
	}
	starts := s.Starts()
	s.Ticks(60, time.Second)
	if s.Starts() != starts {
		t.Errorf("%d starts, it were %d\n%s", s.Starts(), starts, s.Dump())
	}
}

// What is not ready elsewhere in time is ended all the same, and so is what fails there.
func TestWhoCannotMoveIsEnded(t *testing.T) {
	for what, spoil := range map[string]func(*clustertest.Worker){
		"never ready": func(f *clustertest.Worker) { f.Slow = 1 << 20 },
		"it exits":    func(f *clustertest.Worker) { f.Broken["low"] = "exit" },
		"refused":     func(f *clustertest.Worker) { f.Broken["low"] = "refuse" },
	} {
		s := tight(t)
		spoil(s.Workers["w2"])
		s.Share("high", 1, clustertest.Rank(5, 800))
		s.Ticks(2, time.Second)
		if s.Answering("low") != 1 {
			t.Fatalf("%s: low was ended at once\n%s", what, s.Dump())
		}
		s.Ticks(int(placement.RoomBy/time.Second)+8, time.Second)
		if s.Answering("high") != 1 || s.Instance("app.high.0").Worker != "w1" {
			t.Errorf("%s: high does not run\n%s", what, s.Dump())
		}
		if h := placement.Displacement(s.Instance("app.low.0")); h == nil ||
			!strings.Contains(h.Why, "displaced by app.high.0") {
			t.Errorf("%s: low says nothing of it\n%s", what, s.Dump())
		}
	}
}

// Whoever asked for room and is gone leaves what moves where it goes; a restart in the
// middle changes nothing.
func TestMakingRoomSurvives(t *testing.T) {
	s := tight(t)
	s.Workers["w2"].Slow = 4
	s.Share("high", 1, clustertest.Rank(5, 800))
	s.Ticks(2, time.Second)
	s.Restart()
	for range 20 {
		s.Ticks(1, time.Second)
		if s.Answering("low") != 1 {
			t.Fatalf("low was interrupted\n%s", s.Dump())
		}
	}
	if s.Answering("high") != 1 {
		t.Errorf("high does not run\n%s", s.Dump())
	}
	s = tight(t)
	s.Workers["w2"].Slow = 4
	s.Share("high", 1, clustertest.Rank(5, 800))
	s.Ticks(2, time.Second)
	s.Unshare("high")
	s.Ticks(20, time.Second)
	if i := s.Instance("app.low.0"); s.Answering("low") != 1 || i.Moving != nil || i.Leaving != nil {
		t.Errorf("low is not at rest\n%s", s.Dump())
	}
}
