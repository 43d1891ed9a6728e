// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/wire"
)

func rigid(r float64) func(*api.Service) { return func(s *api.Service) { s.Rigidness = &r } }

// both makes a round trip another one, in both directions.
func (e *earth) both(a, b string, rtt time.Duration) {
	e.rtt[[2]string{a, b}], e.rtt[[2]string{b, a}] = rtt, rtt
}

// moved counts moves of a service, by the history of its instance.
func (s *sim) moved(id string) (n int) {
	for _, h := range s.inst(id).History {
		if strings.HasPrefix(h.Why, "moved to another worker: ") {
			n++
		}
	}
	return n
}

// A link that becomes long moves the instance to where it is near again, as soon as its
// rigidness says and not before, and something answers all the while.
func TestAViolatedAgreementMovesAnInstance(t *testing.T) {
	for r, samples := range map[float64]int{1: 1, 0.9: 4, 0.5: 16, 0: 0} {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			s, e := newNearSim(t, "w0", "w2", "w3", "w50")
			s.share("web", 1, onWorker("w0"))
			s.share("api", 1, func(a *api.Service) {
				nearTo("web", 6*time.Millisecond)(a)
				rigid(r)(a)
				a.AntiAffinity.Service = []string{"web"}
			})
			e.live(20, time.Second)
			if i := s.inst("app.api.0"); i.Worker != "w2" || !i.Ready {
				t.Fatalf("it is %s on %s", i.State, i.Worker)
			}
			e.both("w0", "w2", 30*time.Millisecond)
			begin, took := s.now, 0*time.Second
			for range 300 {
				e.live(1, time.Second)
				if ready, _ := s.endpoints("api"); ready == 0 {
					t.Fatal("nobody answers")
				}
				if i := s.inst("app.api.0"); i.Worker == "w3" && took == 0 {
					took = s.now.Sub(begin)
				}
			}
			if samples == 0 {
				if took != 0 {
					t.Errorf("moved after %v, want never", took)
				}
				return
			}
			if least := time.Duration(samples-1) * sampleEvery; took < least || took > least+3*sampleEvery {
				t.Errorf("moved after %v, want about %d samples", took, samples)
			}
			if n := s.moved("app.api.0"); n != 1 {
				t.Errorf("%d moves", n)
			}
		})
	}
}

// Where it would be no better nothing moves.
func TestNothingMovesToNoBetterPlace(t *testing.T) {
	s, e := newNearSim(t, "w0", "w2", "w40", "w50")
	s.share("web", 1, onWorker("w0"))
	s.share("api", 1, func(a *api.Service) {
		nearTo("web", 6*time.Millisecond)(a)
		rigid(1)(a)
		a.AntiAffinity.Service = []string{"web"}
	})
	e.live(10, time.Second)
	e.both("w0", "w2", 30*time.Millisecond)
	e.live(300, time.Second)
	if i := s.inst("app.api.0"); i.Worker != "w2" || s.moved(i.ID) != 0 || i.State != wire.Running {
		t.Errorf("%s on %s after %d moves", i.State, i.Worker, s.moved(i.ID))
	}
	// The root is told, which may know a nearer cluster, until it is near again.
	if up := s.m.Ups["app.api.0"]; up == nil || up.SLAViolation != unkept {
		t.Errorf("the root is told %+v", up)
	}
	figures := map[string]float64{}
	for _, f := range s.m.nearSamples() {
		key := f.Name
		for _, l := range f.Labels {
			key += " " + l[1]
		}
		figures[key] = f.Value
	}
	if figures["verge_agreements_unkept"] != 1 || figures["verge_agreement_samples_total violated"] < 50 || figures["verge_agreement_samples_total kept"] < 1 ||
		figures["verge_distance_questions_total answered"] != float64(e.asked) || figures["verge_distance_questions_total failed"] != 0 {
		t.Errorf("%d were asked: %v", e.asked, figures)
	}
	e.both("w0", "w2", 2*time.Millisecond)
	e.live(300, time.Second)
	if up := s.m.Ups["app.api.0"]; up == nil || up.SLAViolation != "" {
		t.Errorf("the root is still told %+v", up)
	}
}

// Samples are in memory. A restart delays a move by those that it has forgotten, and by no
// more; what the root was told is broken it is told without a gap, so that a move to another
// cluster goes on.
func TestARestartForgetsNoBrokenAgreement(t *testing.T) {
	begin := func(workers ...string) (*sim, *earth) {
		s, e := newNearSim(t, workers...)
		s.share("web", 1, onWorker("w0"))
		s.share("api", 1, func(a *api.Service) {
			nearTo("web", 6*time.Millisecond)(a)
			rigid(0.5)(a)
			a.AntiAffinity.Service = []string{"web"}
		})
		e.live(20, time.Second)
		e.both("w0", "w2", 30*time.Millisecond)
		return s, e
	}
	s, e := begin("w0", "w2", "w40")
	told := func() string {
		if up := s.m.Ups["app.api.0"]; up != nil {
			return up.SLAViolation
		}
		return ""
	}
	e.live(120, time.Second)
	if told() != unkept {
		t.Fatalf("the root is told %q\n%s", told(), s.dump())
	}
	s.restart()
	for range 200 {
		if e.live(1, time.Second); told() != unkept {
			t.Fatalf("after a restart the root is told %q", told())
		}
	}
	s.restart()
	e.both("w0", "w2", 2*time.Millisecond)
	if e.live(200, time.Second); told() != "" {
		t.Errorf("it is near again, and the root is told %q", told())
	}

	s, e = begin("w0", "w2", "w3")
	e.live(50, time.Second) // ten samples of sixteen
	if n := s.moved("app.api.0"); n != 0 {
		t.Fatalf("%d moves", n)
	}
	s.restart()
	e.live(120, time.Second)
	if i := s.inst("app.api.0"); i.Worker != "w3" || s.moved(i.ID) != 1 {
		t.Errorf("on %s after %d moves\n%s", i.Worker, s.moved(i.ID), s.dump())
	}
	s.restart()
	e.both("w0", "w3", 30*time.Millisecond)
	e.both("w0", "w2", 2*time.Millisecond)
	e.live(100, time.Second) // more than sixteen samples, and less than all thirty
	if n := s.moved("app.api.0"); n != 1 {
		t.Errorf("%d moves, the last two within five minutes", n)
	}
}

// Links that are near and far in turn: no service moves more often than once in five
// minutes.
func TestAgreementsDoNotPingPong(t *testing.T) {
	s, e := newNearSim(t, "w0", "w2", "w3")
	s.share("web", 1, onWorker("w0"))
	s.share("api", 1, func(a *api.Service) {
		nearTo("web", 6*time.Millisecond)(a)
		rigid(1)(a)
		a.AntiAffinity.Service = []string{"web"}
	})
	e.live(10, time.Second)
	var moves []time.Time
	on := s.inst("app.api.0").Worker
	for n := range 1200 {
		if n%10 == 0 { // where it is becomes far, the other near; and all near again
			for _, w := range []string{"w2", "w3"} {
				far := 2 * time.Millisecond
				if n%20 == 0 && w == s.inst("app.api.0").Worker {
					far = 20 * time.Millisecond
				}
				e.both("w0", w, far)
			}
		}
		e.live(1, time.Second)
		if now := s.inst("app.api.0").Worker; now != on {
			on, moves = now, append(moves, s.now)
		}
	}
	for n := 1; n < len(moves); n++ {
		if d := moves[n].Sub(moves[n-1]); d < sla.Rest-10*time.Second { // one of them took a moment
			t.Errorf("moved again after %v", d)
		}
	}
	if len(moves) == 0 || len(moves) > 5 {
		t.Errorf("%d moves in 20 minutes", len(moves))
	}
}

// Two services that must be near each other come together again, one of them moving,
// and do not exchange places.
func TestARingComesTogetherAgain(t *testing.T) {
	s, e := newNearSim(t, "w0", "w1", "w50", "w51")
	for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}} {
		s.share(pair[0], 1, func(a *api.Service) {
			nearTo(pair[1], 6*time.Millisecond)(a)
			rigid(1)(a)
			a.AntiAffinity.Service = []string{pair[1]}
		})
	}
	e.live(10, time.Second)
	a, b := s.inst("app.a.0"), s.inst("app.b.0")
	if apart(a.Worker, b.Worker) > 6*time.Millisecond {
		t.Fatalf("a on %s, b on %s", a.Worker, b.Worker)
	}
	other := map[string]string{"w0": "w50", "w1": "w51", "w50": "w0", "w51": "w1"}
	e.both(a.Worker, b.Worker, 40*time.Millisecond)
	e.both(a.Worker, other[a.Worker], 2*time.Millisecond)
	e.live(400, time.Second)
	a, b = s.inst("app.a.0"), s.inst("app.b.0")
	if d := e.rtt[[2]string{a.Worker, b.Worker}]; d > 6*time.Millisecond {
		t.Errorf("a on %s, b on %s: %v", a.Worker, b.Worker, d)
	}
	if n := s.moved(a.ID) + s.moved(b.ID); n < 1 || n > 2 {
		t.Errorf("%d moves", n)
	}
}

// Users who go away from a worker are followed.
func TestUsersAreFollowed(t *testing.T) {
	s, e := newNearSim(t, "w0", "w5", "w50")
	e.users["192.0.2.7"] = "w1"
	s.share("api", 1, func(a *api.Service) {
		nearTo("192.0.2.7", 3*time.Millisecond)(a)
		rigid(0.9)(a)
	})
	e.live(10, time.Second)
	if i := s.inst("app.api.0"); i.Worker != "w0" {
		t.Fatalf("on %s: %s", i.Worker, i.Reason)
	}
	e.users["192.0.2.7"] = "w49"
	e.live(240, time.Second)
	if i := s.inst("app.api.0"); i.Worker != "w50" || s.moved(i.ID) != 1 {
		t.Errorf("on %s after %d moves", i.Worker, s.moved(i.ID))
	}
}

// A restart of the cluster does not move a service sooner than it would have been.
func TestARestartDoesNotMoveSooner(t *testing.T) {
	s, e := newNearSim(t, "w0", "w2", "w3")
	s.share("web", 1, onWorker("w0"))
	s.share("api", 1, func(a *api.Service) {
		nearTo("web", 6*time.Millisecond)(a)
		rigid(1)(a)
		a.AntiAffinity.Service = []string{"web"}
	})
	e.live(10, time.Second)
	e.both("w0", "w2", 30*time.Millisecond)
	e.live(20, time.Second)
	if i := s.inst("app.api.0"); i.Worker != "w3" || s.moved(i.ID) != 1 {
		t.Fatalf("on %s after %d moves", i.Worker, s.moved(i.ID))
	}
	s.restart()
	e.both("w0", "w2", 2*time.Millisecond)
	for sec := range 400 {
		far := 30 * time.Millisecond
		if sec%50 < 10 { // now and then, so that it is never violated for a whole window
			far = 2 * time.Millisecond
		}
		e.both("w0", "w3", far)
		e.live(1, time.Second)
		if i := s.inst("app.api.0"); i.Worker != "w3" {
			if sec < 240 {
				t.Errorf("moved again after %d s", sec)
			}
			return
		}
	}
	t.Error("never moved")
}
