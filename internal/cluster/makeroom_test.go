// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// tight is two workers, of which only w1 could take what asks for 800, and then not what
// runs there (low, 300), for which w2 has room.
func tight(t *testing.T) *sim {
	t.Helper()
	s := newSim(t, "w1", "w2")
	s.full(1000)
	s.m.Workers["w2"].Info.Capacity.CPU = 500
	s.store(state.KeyWorker+"w2", s.m.Workers["w2"].WorkerRecord)
	s.share("filler", 1, rank(9, 450)) // best fit: on w2
	s.ticks(4, time.Second)
	s.share("low", 1, rank(0, 300))
	s.ticks(4, time.Second)
	s.unshare("filler")
	s.ticks(4, time.Second)
	if i := s.inst("app.low.0"); i.Worker != "w1" || s.answering("low") != 1 {
		t.Fatalf("low is on %q\n%s", i.Worker, s.dump())
	}
	return s
}

// Who has to make room is started where there is room before it ends.
func TestWhoIsDisplacedMovesFirst(t *testing.T) {
	s := tight(t)
	s.fakes["w2"].slow = 3
	s.share("high", 1, rank(5, 800))
	said := false
	for range 20 {
		s.ticks(1, time.Second)
		if s.answering("low") != 1 {
			t.Fatalf("low was interrupted\n%s", s.dump())
		}
		if i := s.inst("app.high.0"); strings.Contains(i.Reason, "displaces app.low.0 on worker w1") && strings.Contains(i.Reason, "1 of 1 first starts on another worker") {
			said = true
		}
	}
	low, high := s.inst("app.low.0"), s.inst("app.high.0")
	if low.Worker != "w2" || high.Worker != "w1" || s.answering("high") != 1 || !said {
		t.Fatalf("low on %q, high on %q, said %v\n%s", low.Worker, high.Worker, said, s.dump())
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
	starts := s.starts()
	s.ticks(60, time.Second)
	if s.starts() != starts {
		t.Errorf("%d starts, it were %d\n%s", s.starts(), starts, s.dump())
	}
}

// What is not ready elsewhere in time is ended all the same, and so is what fails there.
func TestWhoCannotMoveIsEnded(t *testing.T) {
	for what, spoil := range map[string]func(*fake){
		"never ready": func(f *fake) { f.slow = 1 << 20 },
		"it exits":    func(f *fake) { f.broken["low"] = "exit" },
		"refused":     func(f *fake) { f.broken["low"] = "refuse" },
	} {
		s := tight(t)
		spoil(s.fakes["w2"])
		s.share("high", 1, rank(5, 800))
		s.ticks(2, time.Second)
		if s.answering("low") != 1 {
			t.Fatalf("%s: low was ended at once\n%s", what, s.dump())
		}
		s.ticks(int(roomBy/time.Second)+8, time.Second)
		if s.answering("high") != 1 || s.inst("app.high.0").Worker != "w1" {
			t.Errorf("%s: high does not run\n%s", what, s.dump())
		}
		if h := displacement(s.inst("app.low.0")); h == nil || !strings.Contains(h.Why, "displaced by app.high.0") {
			t.Errorf("%s: low says nothing of it\n%s", what, s.dump())
		}
	}
}

// Whoever asked for room and is gone leaves what moves where it goes; a restart in the
// middle changes nothing.
func TestMakingRoomSurvives(t *testing.T) {
	s := tight(t)
	s.fakes["w2"].slow = 4
	s.share("high", 1, rank(5, 800))
	s.ticks(2, time.Second)
	s.restart()
	for range 20 {
		s.ticks(1, time.Second)
		if s.answering("low") != 1 {
			t.Fatalf("low was interrupted\n%s", s.dump())
		}
	}
	if s.answering("high") != 1 {
		t.Errorf("high does not run\n%s", s.dump())
	}
	s = tight(t)
	s.fakes["w2"].slow = 4
	s.share("high", 1, rank(5, 800))
	s.ticks(2, time.Second)
	s.unshare("high")
	s.ticks(20, time.Second)
	if i := s.inst("app.low.0"); s.answering("low") != 1 || i.Moving != nil || i.Leaving != nil {
		t.Errorf("low is not at rest\n%s", s.dump())
	}
}
