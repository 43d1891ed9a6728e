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

// crammed is one worker on which low serves, high waits for its room, and of which the
// root has other clusters.
func crammed(t *testing.T) *sim {
	t.Helper()
	s := newSim(t, "w1")
	s.full(1000)
	s.share("low", 1, rank(0, 800))
	s.tell("low", func(sh *wire.Share) { sh.Elsewhere = true })
	s.ticks(4, time.Second)
	s.share("high", 1, rank(5, 800))
	s.ticks(1, time.Second)
	low, high := s.inst("app.low.0"), s.inst("app.high.0")
	if s.answering("low") != 1 || low.Room == nil || !strings.Contains(low.Room.For, "makes room for app.high.0, which has priority 5") {
		t.Fatalf("low is not offered to others: %+v\n%s", low.Room, s.dump())
	}
	if up := s.m.Ups["app.low.0"]; up == nil || up.Room == nil {
		t.Errorf("the root is not told: %+v", up)
	}
	if !strings.Contains(high.Reason, "for 1 of 1 the root first looks for another cluster") {
		t.Errorf("high says %q", high.Reason)
	}
	return s
}

// tell changes what the root says of a service.
func (s *sim) tell(svc string, change func(*wire.Share)) {
	sh := *s.m.Given["app."+svc]
	change(&sh)
	s.m.Given["app."+svc] = &sh
	s.m.effect()
	s.store(state.KeyShare+"app."+svc, &sh)
}

// Where the root says nothing, the one that makes room is ended as if nobody had been
// asked, and no sooner.
func TestWhoIsNotTakenElsewhereIsEnded(t *testing.T) {
	s := crammed(t)
	s.ticks(1, time.Second)
	if s.answering("low") != 1 {
		t.Fatalf("low was ended before the root could answer\n%s", s.dump())
	}
	s.ticks(10, time.Second)
	if h := displacement(s.inst("app.low.0")); s.answering("high") != 1 || h == nil || !strings.Contains(h.Why, "displaced by app.high.0") || s.inst("app.low.0").Room != nil {
		t.Errorf("%+v\n%s", h, s.dump())
	}
}

// Where the root replaces it, it serves until it is taken away, also over a restart, and
// whoever waits displaces nobody else meanwhile.
func TestWhoIsTakenElsewhereServesUntilThen(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		s := crammed(t)
		s.tell("low", func(sh *wire.Share) { sh.Replacing = []int{0} })
		for n := range 20 {
			if s.ticks(1, time.Second); s.answering("low") != 1 {
				t.Fatalf("low was interrupted\n%s", s.dump())
			}
			if restarts && n == 5 {
				s.restart()
			}
		}
		s.unshare("low")
		s.ticks(8, time.Second)
		if s.answering("high") != 1 || s.answering("low") != 0 || s.m.Insts["app.low.0"] != nil {
			t.Errorf("restart %v: high does not run\n%s", restarts, s.dump())
		}
	}
}

// What the root begins and does not end is not waited for without end.
func TestWhoIsTakenElsewhereHasItsTime(t *testing.T) {
	s := crammed(t)
	s.tell("low", func(sh *wire.Share) { sh.Replacing = []int{0} })
	s.ticks(int(roomBy/time.Second)-5, time.Second)
	if s.answering("low") != 1 {
		t.Fatalf("low was ended early\n%s", s.dump())
	}
	s.ticks(15, time.Second)
	if s.answering("high") != 1 || displacement(s.inst("app.low.0")) == nil {
		t.Errorf("high does not run\n%s", s.dump())
	}
}

// Nobody is asked about what does not serve.
func TestWhatDoesNotServeIsEndedAtOnce(t *testing.T) {
	s := newSim(t, "w1")
	s.full(1000)
	s.fakes["w1"].slow = 1 << 20
	s.share("low", 1, rank(0, 800))
	s.tell("low", func(sh *wire.Share) { sh.Elsewhere = true })
	s.ticks(4, time.Second)
	s.share("high", 1, rank(5, 800))
	s.ticks(1, time.Second)
	if i := s.inst("app.low.0"); i.Room != nil || displacement(i) == nil {
		t.Errorf("%+v\n%s", i, s.dump())
	}
}
