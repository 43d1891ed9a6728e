package placement_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/placement"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// crammed is one worker on which low serves, high waits for its room, and of which the
// root has other clusters.
func crammed(t *testing.T) *clustertest.Sim {
	t.Helper()
	s := clustertest.NewSim(t, "w1")
	s.SetCPU(1000)
	s.Share("low", 1, clustertest.Rank(0, 800))
	tell(s, "low", func(sh *wire.Share) { sh.Elsewhere = true })
	s.Ticks(4, time.Second)
	s.Share("high", 1, clustertest.Rank(5, 800))
	s.Ticks(1, time.Second)
	low, high := s.Instance("app.low.0"), s.Instance("app.high.0")
	if s.Answering("low") != 1 || low.Room == nil ||
		!strings.Contains(low.Room.For, "makes room for app.high.0, which has priority 5") {
		t.Fatalf("low is not offered to others: %+v\n%s", low.Room, s.Dump())
	}
	if up := s.Model.Ups["app.low.0"]; up == nil || up.Room == nil {
		t.Errorf("the root is not told: %+v", up)
	}
	if !strings.Contains(high.Reason, "for 1 of 1 the root first looks for another cluster") {
		t.Errorf("high says %q", high.Reason)
	}
	return s
}

// tell changes what the root says of a service.
func tell(s *clustertest.Sim, svc string, change func(*wire.Share)) {
	sh := *s.Model.FromRoot["app."+svc]
	change(&sh)
	s.Model.FromRoot["app."+svc] = &sh
	reconcile.Effect(s.Model)
	s.Store(state.KeyShare+"app."+svc, &sh)
}

// Where the root says nothing, the one that makes room is ended as if nobody had been
// asked, and no sooner.
func TestWhoIsNotTakenElsewhereIsEnded(t *testing.T) {
	s := crammed(t)
	s.Ticks(1, time.Second)
	if s.Answering("low") != 1 {
		t.Fatalf("low was ended before the root could answer\n%s", s.Dump())
	}
	s.Ticks(10, time.Second)
	if h := placement.Displacement(s.Instance("app.low.0")); s.Answering("high") != 1 || h == nil ||
		!strings.Contains(h.Why, "displaced by app.high.0") || s.Instance("app.low.0").Room != nil {
		t.Errorf("%+v\n%s", h, s.Dump())
	}
}

// Where the root replaces it, it serves until it is taken away, also over a restart, and
// whoever waits displaces nobody else meanwhile.
func TestWhoIsTakenElsewhereServesUntilThen(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		s := crammed(t)
		tell(s, "low", func(sh *wire.Share) { sh.Replacing = []int{0} })
		for n := range 20 {
			if s.Ticks(1, time.Second); s.Answering("low") != 1 {
				t.Fatalf("low was interrupted\n%s", s.Dump())
			}
			if restarts && n == 5 {
				s.Restart()
			}
		}
		s.Unshare("low")
		s.Ticks(8, time.Second)
		if s.Answering("high") != 1 || s.Answering("low") != 0 || s.Model.Insts["app.low.0"] != nil {
			t.Errorf("restart %v: high does not run\n%s", restarts, s.Dump())
		}
	}
}

// What the root begins and does not end is not waited for without end.
func TestWhoIsTakenElsewhereHasItsTime(t *testing.T) {
	s := crammed(t)
	tell(s, "low", func(sh *wire.Share) { sh.Replacing = []int{0} })
	s.Ticks(int(placement.RoomBy/time.Second)-5, time.Second)
	if s.Answering("low") != 1 {
		t.Fatalf("low was ended early\n%s", s.Dump())
	}
	s.Ticks(15, time.Second)
	if s.Answering("high") != 1 || placement.Displacement(s.Instance("app.low.0")) == nil {
		t.Errorf("high does not run\n%s", s.Dump())
	}
}

// Nobody is asked about what does not serve.
func TestWhatDoesNotServeIsEndedAtOnce(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.SetCPU(1000)
	s.Workers["w1"].Slow = 1 << 20
	s.Share("low", 1, clustertest.Rank(0, 800))
	tell(s, "low", func(sh *wire.Share) { sh.Elsewhere = true })
	s.Ticks(4, time.Second)
	s.Share("high", 1, clustertest.Rank(5, 800))
	s.Ticks(1, time.Second)
	if i := s.Instance("app.low.0"); i.Room != nil || placement.Displacement(i) == nil {
		t.Errorf("%+v\n%s", i, s.Dump())
	}
}
