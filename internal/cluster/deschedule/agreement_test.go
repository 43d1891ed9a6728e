package deschedule_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/wire"
)

// beside demands that a service be near another one, and on another worker.
func beside(other string, rigidness float64) func(*api.Service) {
	return func(v *api.Service) {
		clustertest.NearTo(other, 6*time.Millisecond)(v)
		clustertest.Rigid(rigidness)(v)
		v.AntiAffinity.Service = []string{other}
	}
}

// A link that becomes long moves the instance to where it is near again, as soon as its
// rigidness says and not before, and something answers all the while.
func TestAViolatedAgreementMovesAnInstance(t *testing.T) {
	for r, samples := range map[float64]int{1: 1, 0.9: 4, 0.5: 16, 0: 0} {
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			s, e := clustertest.NewSimWithNetwork(t, "w0", "w2", "w3", "w50")
			s.Share("web", 1, clustertest.OnWorker("w0"))
			s.Share("api", 1, beside("web", r))
			e.Run(20, time.Second)
			if i := s.Instance("app.api.0"); i.Worker != "w2" || !i.Ready {
				t.Fatalf("it is %s on %s", i.State, i.Worker)
			}
			e.SetRTT("w0", "w2", 30*time.Millisecond)
			begin, took := s.Now, 0*time.Second
			for range 300 {
				e.Run(1, time.Second)
				if ready, _ := s.Endpoints("api"); ready == 0 {
					t.Fatal("nobody answers")
				}
				if i := s.Instance("app.api.0"); i.Worker == "w3" && took == 0 {
					took = s.Now.Sub(begin)
				}
			}
			if samples == 0 {
				if took != 0 {
					t.Errorf("moved after %v, want never", took)
				}
				return
			}
			if least := time.Duration(samples-1) * proximity.SampleEvery; took < least ||
				took > least+3*proximity.SampleEvery {
				t.Errorf("moved after %v, want about %d samples", took, samples)
			}
			if n := s.Moves("app.api.0"); n != 1 {
				t.Errorf("%d moves", n)
			}
		})
	}
}

// Samples are in memory. A restart delays a move by those that it has forgotten, and by no
// more; what the root was told is broken it is told without a gap, so that a move to another
// cluster goes on.
func TestARestartForgetsNoBrokenAgreement(t *testing.T) {
	begin := func(workers ...string) (*clustertest.Sim, *clustertest.Network) {
		s, e := clustertest.NewSimWithNetwork(t, workers...)
		s.Share("web", 1, clustertest.OnWorker("w0"))
		s.Share("api", 1, beside("web", 0.5))
		e.Run(20, time.Second)
		e.SetRTT("w0", "w2", 30*time.Millisecond)
		return s, e
	}
	s, e := begin("w0", "w2", "w40")
	told := func() string {
		if up := s.Model.Ups["app.api.0"]; up != nil {
			return up.SLAViolation
		}
		return ""
	}
	e.Run(120, time.Second)
	if told() != proximity.SLAViolation {
		t.Fatalf("the root is told %q\n%s", told(), s.Dump())
	}
	s.Restart()
	for range 200 {
		if e.Run(1, time.Second); told() != proximity.SLAViolation {
			t.Fatalf("after a restart the root is told %q", told())
		}
	}
	s.Restart()
	e.SetRTT("w0", "w2", 2*time.Millisecond)
	if e.Run(200, time.Second); told() != "" {
		t.Errorf("it is near again, and the root is told %q", told())
	}

	s, e = begin("w0", "w2", "w3")
	e.Run(50, time.Second) // ten samples of sixteen
	if n := s.Moves("app.api.0"); n != 0 {
		t.Fatalf("%d moves", n)
	}
	s.Restart()
	e.Run(120, time.Second)
	if i := s.Instance("app.api.0"); i.Worker != "w3" || s.Moves(i.ID) != 1 {
		t.Errorf("on %s after %d moves\n%s", i.Worker, s.Moves(i.ID), s.Dump())
	}
	s.Restart()
	e.SetRTT("w0", "w3", 30*time.Millisecond)
	e.SetRTT("w0", "w2", 2*time.Millisecond)
	e.Run(100, time.Second) // more than sixteen samples, and less than all thirty
	if n := s.Moves("app.api.0"); n != 1 {
		t.Errorf("%d moves, the last two within five minutes", n)
	}
}

// Links that are near and far in turn: no service moves more often than once in five
// minutes.
func TestAgreementsDoNotPingPong(t *testing.T) {
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w2", "w3")
	s.Share("web", 1, clustertest.OnWorker("w0"))
	s.Share("api", 1, beside("web", 1))
	e.Run(10, time.Second)
	var moves []time.Time
	on := s.Instance("app.api.0").Worker
	for n := range 1200 {
		if n%10 == 0 { // where it is becomes far, the other near; and all near again
			for _, w := range []string{"w2", "w3"} {
				far := 2 * time.Millisecond
				if n%20 == 0 && w == s.Instance("app.api.0").Worker {
					far = 20 * time.Millisecond
				}
				e.SetRTT("w0", w, far)
			}
		}
		e.Run(1, time.Second)
		if now := s.Instance("app.api.0").Worker; now != on {
			on, moves = now, append(moves, s.Now)
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
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w1", "w50", "w51")
	for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}} {
		s.Share(pair[0], 1, beside(pair[1], 1))
	}
	e.Run(10, time.Second)
	a, b := s.Instance("app.a.0"), s.Instance("app.b.0")
	if clustertest.Apart(a.Worker, b.Worker) > 6*time.Millisecond {
		t.Fatalf("a on %s, b on %s", a.Worker, b.Worker)
	}
	other := map[string]string{"w0": "w50", "w1": "w51", "w50": "w0", "w51": "w1"}
	e.SetRTT(a.Worker, b.Worker, 40*time.Millisecond)
	e.SetRTT(a.Worker, other[a.Worker], 2*time.Millisecond)
	e.Run(400, time.Second)
	a, b = s.Instance("app.a.0"), s.Instance("app.b.0")
	if d := e.RTT[[2]string{a.Worker, b.Worker}]; d > 6*time.Millisecond {
		t.Errorf("a on %s, b on %s: %v", a.Worker, b.Worker, d)
	}
	if n := s.Moves(a.ID) + s.Moves(b.ID); n < 1 || n > 2 {
		t.Errorf("%d moves", n)
	}
}

// Users who go away from a worker are followed.
func TestUsersAreFollowed(t *testing.T) {
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w5", "w50")
	e.Users["192.0.2.7"] = "w1"
	s.Share("api", 1, func(a *api.Service) {
		clustertest.NearTo("192.0.2.7", 3*time.Millisecond)(a)
		clustertest.Rigid(0.9)(a)
	})
	e.Run(10, time.Second)
	if i := s.Instance("app.api.0"); i.Worker != "w0" {
		t.Fatalf("on %s: %s", i.Worker, i.Reason)
	}
	e.Users["192.0.2.7"] = "w49"
	e.Run(240, time.Second)
	if i := s.Instance("app.api.0"); i.Worker != "w50" || s.Moves(i.ID) != 1 {
		t.Errorf("on %s after %d moves", i.Worker, s.Moves(i.ID))
	}
}

// A restart of the cluster does not move a service sooner than it would have been.
func TestARestartDoesNotMoveSooner(t *testing.T) {
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w2", "w3")
	s.Share("web", 1, clustertest.OnWorker("w0"))
	s.Share("api", 1, beside("web", 1))
	e.Run(10, time.Second)
	e.SetRTT("w0", "w2", 30*time.Millisecond)
	e.Run(20, time.Second)
	if i := s.Instance("app.api.0"); i.Worker != "w3" || s.Moves(i.ID) != 1 {
		t.Fatalf("on %s after %d moves", i.Worker, s.Moves(i.ID))
	}
	s.Restart()
	e.SetRTT("w0", "w2", 2*time.Millisecond)
	for sec := range 400 {
		far := 30 * time.Millisecond
		if sec%50 < 10 { // now and then, so that it is never violated for a whole window
			far = 2 * time.Millisecond
		}
		e.SetRTT("w0", "w3", far)
		e.Run(1, time.Second)
		if i := s.Instance("app.api.0"); i.Worker != "w3" {
			if sec < 240 {
				t.Errorf("moved again after %d s", sec)
			}
			return
		}
	}
	t.Error("never moved")
}

// Where it would be no better nothing moves.
func TestNothingMovesToNoBetterPlace(t *testing.T) {
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w2", "w40", "w50")
	s.Share("web", 1, clustertest.OnWorker("w0"))
	s.Share("api", 1, beside("web", 1))
	e.Run(10, time.Second)
	e.SetRTT("w0", "w2", 30*time.Millisecond)
	e.Run(300, time.Second)
	if i := s.Instance("app.api.0"); i.Worker != "w2" || s.Moves(i.ID) != 0 || i.State != wire.Running {
		t.Errorf("%s on %s after %d moves", i.State, i.Worker, s.Moves(i.ID))
	}
	// The root is told, which may know a nearer cluster, until it is near again.
	if up := s.Model.Ups["app.api.0"]; up == nil || up.SLAViolation != proximity.SLAViolation {
		t.Errorf("the root is told %+v", up)
	}
	figures := map[string]float64{}
	for _, f := range proximity.NearSamples(s.Model) {
		key := f.Name
		for _, l := range f.Labels {
			key += " " + l[1]
		}
		figures[key] = f.Value
	}
	if figures["verge_agreements_unkept"] != 1 || figures["verge_agreement_samples_total violated"] < 50 ||
		figures["verge_agreement_samples_total kept"] < 1 ||
		figures["verge_distance_questions_total answered"] != float64(e.Asked) ||
		figures["verge_distance_questions_total failed"] != 0 {
		t.Errorf("%d were asked: %v", e.Asked, figures)
	}
	e.SetRTT("w0", "w2", 2*time.Millisecond)
	e.Run(300, time.Second)
	if up := s.Model.Ups["app.api.0"]; up == nil || up.SLAViolation != "" {
		t.Errorf("the root is still told %+v", up)
	}
}
