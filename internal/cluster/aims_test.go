// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

func TestAnInstanceIsPlacedNearUsers(t *testing.T) {
	s, e := newNearSim(t, "w0", "w5", "w20", "w25")
	e.users["users.example.org"] = "w21"
	s.share("api", 1, func(a *api.Service) {
		nearTo("users.example.org", 3*time.Millisecond)(a)
		rigid(0)(a) // what runs is not measured
	})
	e.live(3, time.Second)
	if i := s.inst("app.api.0"); i.Worker != "w20" {
		t.Errorf("on %q: %q", i.Worker, i.Reason)
	}
	// It is measured again in minutes, not all the time.
	before := e.pinged
	e.live(60, time.Second)
	if n := e.pinged - before; n > 4 {
		t.Errorf("measured %d times in a minute", n)
	}
}

// In a large cluster some workers find the place of the users, and those nearest to it
// measure it: what they say decides.
func TestUsersAreFoundBySomeWorkers(t *testing.T) {
	var names []string
	for n := range 100 {
		names = append(names, fmt.Sprintf("w%d", n))
	}
	s, e := newNearSim(t, names...)
	e.users["192.0.2.7"] = "w40"
	s.share("api", 1, nearTo("192.0.2.7", 4*time.Millisecond))
	e.live(14, time.Second)
	i := s.inst("app.api.0")
	if i.Worker == "" || apart(i.Worker, "w40") > 5*time.Millisecond {
		t.Errorf("on %q: %q", i.Worker, i.Reason)
	}
	if e.pinged > 60 {
		t.Errorf("%d measurements", e.pinged)
	}
}

// Users who answer nobody: nothing is placed blindly, and the reason says what was tried.
func TestUsersWhoAnswerNobody(t *testing.T) {
	s, e := newNearSim(t, "w0", "w5")
	s.share("api", 1, nearTo("192.0.2.7", 3*time.Millisecond))
	e.live(14, time.Second)
	i := s.inst("app.api.0")
	if i.State != wire.Requested || !strings.Contains(i.Reason, "not known to be within 3ms of 192.0.2.7 (no worker could measure it, for example w0: nobody there)") {
		t.Errorf("%s: %q", i.State, i.Reason)
	}
	e.users["192.0.2.7"] = "w4" // it heals when they answer
	e.live(90, time.Second)
	if i := s.inst("app.api.0"); i.Worker != "w5" {
		t.Errorf("on %q: %q", i.Worker, i.Reason)
	}
}

// Whatever a worker answers, nobody but what it measured is believed.
func TestWrongAnswersAboutUsers(t *testing.T) {
	s, e := newNearSim(t, "w0", "w5")
	e.users["192.0.2.7"] = "w4"
	s.share("api", 1, nearTo("192.0.2.7", 3*time.Millisecond))
	s.tick(time.Second)
	list, _ := s.m.survey(s.now)
	for _, q := range list {
		for _, r := range []wire.Measured{
			{}, {Targets: make([]wire.MeasuredRTT, 5)}, {Own: wire.Coordinate{Height: -1}, Targets: []wire.MeasuredRTT{{RTT: -5}}, Peers: make([]wire.MeasuredRTT, len(q.ask.Peers))},
			{Targets: []wire.MeasuredRTT{{RTT: api.Duration(time.Hour)}}, Peers: make([]wire.MeasuredRTT, len(q.ask.Peers))},
			{Targets: []wire.MeasuredRTT{{Why: strings.Repeat("x", 1e6)}}, Peers: make([]wire.MeasuredRTT, len(q.ask.Peers))},
		} {
			s.m.learnNear(q, r, nil, s.now)
		}
		if a := s.m.near.aims["192.0.2.7"].by[q.worker]; a.rtt != 0 || len(a.why) > 300 {
			t.Errorf("%+v", a)
		}
		if s.m.Workers[q.worker].Coord != nil && !s.m.Workers[q.worker].Coord.Valid() {
			t.Error("an impossible coordinate was taken")
		}
	}
}
