package sim_test

import (
	"math"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/sim"
)

// one pod behind one router without distance, for so long.
func one(t *testing.T, p *sim.Pod, law sim.Law, rps float64, d time.Duration) *sim.Stats {
	t.Helper()
	w := sim.New(5)
	p.ID = "p"
	r, err := sim.NewRouter(w, "here", api.Policy{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Use([]*sim.Pod{p.Start(w)})
	s := &sim.Stats{From: 10 * time.Second}
	sim.Open(w, "load", r, sim.Works(law, 0, 0), sim.Steady(rps), rps, d, s)
	w.Run(d + time.Hour)
	return s
}

// What queueing theory has exact answers for.
func TestAgainstTheory(t *testing.T) {
	const long = 2 * time.Hour
	for name, c := range map[string]struct {
		pod  sim.Pod
		law  sim.Law
		rps  float64
		want float64 // mean time in s
	}{
		"M/M/1": {sim.Pod{Slots: 1, Service: 100 * time.Millisecond}, sim.Exponential, 7, 0.1 / (1 - 0.7)},
		"M/D/1": {sim.Pod{Slots: 1, Service: 100 * time.Millisecond}, sim.Fixed, 7, 0.1 + 0.7*0.1/(2*(1-0.7))},
		"M/G/1": {sim.Pod{Slots: 1, Service: 100 * time.Millisecond}, sim.Lognormal(1.5), 5,
			0.1 + 0.5*0.1*(1+1.5*1.5)/(2*(1-0.5))},
		"M/M/2":    {sim.Pod{Slots: 2, Service: 100 * time.Millisecond}, sim.Exponential, 14, 0.1 / (1 - 0.7*0.7)},
		"M/D/inf":  {sim.Pod{Service: 100 * time.Millisecond}, sim.Fixed, 50, 0.1},
		"M/G/1-PS": {sim.Pod{Cores: 1, Service: 100 * time.Millisecond}, sim.Lognormal(1.5), 7, 0.1 / (1 - 0.7)},
		"M/D/2-PS": {sim.Pod{Cores: 2, Service: 100 * time.Millisecond}, sim.Exponential, 14, 0.1 / (1 - 0.7*0.7)},
	} {
		if got := one(t, &c.pod, c.law, c.rps, long).Mean(); math.Abs(got/c.want-1) > 0.05 {
			t.Errorf("%s: %.4f s, theory says %.4f s", name, got, c.want)
		}
	}
}

func TestSameSeedSameEvents(t *testing.T) {
	run := func() *sim.Stats {
		return one(t, &sim.Pod{Slots: 2, Cores: 1, Service: 50 * time.Millisecond}, sim.Exponential, 15, time.Minute)
	}
	a, b := run(), run()
	if len(a.Times) == 0 || len(a.Times) != len(b.Times) || a.Mean() != b.Mean() ||
		a.Percentile(0.99) != b.Percentile(0.99) {
		t.Errorf("%d requests with mean %v, then %d with %v", len(a.Times), a.Mean(), len(b.Times), b.Mean())
	}
}

// A router learns of an end, and of the load, when the answer arrives.
func TestARouterSeesWhatTheWireBrings(t *testing.T) {
	w := sim.New(1)
	link := &sim.Link{RTT: 40 * time.Millisecond, Up: &sim.Pipe{Rate: 1e6}, Down: &sim.Pipe{Rate: 1e6}}
	pod := (&sim.Pod{ID: "p", Place: "far", Slots: 1, Service: 100 * time.Millisecond}).Start(w)
	r, err := sim.NewRouter(w, "here", api.Policy{}, func(string) *sim.Link { return link })
	if err != nil {
		t.Fatal(err)
	}
	r.Use([]*sim.Pod{pod})
	var took []time.Duration
	for range 2 {
		r.Send(&sim.Request{Work: 1, Body: 10_000, Answer: 5_000},
			func(sim.End, string) { took = append(took, w.Elapsed()) })
	}
	// There: 10 ms of the body and half the round trip for the first, 10 ms more for
	// the second, which waits.
	w.Run(154 * time.Millisecond)
	if l := r.View().Endpoints[0].Load; l.InFlight != 2 || !l.Reported.IsZero() || pod.Running() != 1 ||
		pod.Waiting() != 0 {
		t.Errorf("the first is answered, and nobody here can know: %+v", l)
	}
	w.Run(2 * time.Millisecond)
	l := r.View().Endpoints[0].Load
	if l.InFlight != 1 || l.Running != 1 || l.Queue != 0 || l.Exec != 100*time.Millisecond || l.Capacity != 10 {
		t.Errorf("after the first answer: %+v", l)
	}
	w.Run(time.Second)
	if len(took) != 2 || took[0] != 155*time.Millisecond || took[1] != 255*time.Millisecond {
		t.Errorf("answers at %v", took)
	}
}

func TestAFullQueueRefusesAndAnotherIsTried(t *testing.T) {
	w := sim.New(1)
	full := (&sim.Pod{ID: "full", Slots: 1, QueueMax: 1, Service: time.Hour}).Start(w)
	for range 2 {
		full.Take(&sim.Request{Work: 1}, func(sim.End, scale.Report) {})
	}
	r, err := sim.NewRouter(w, "here", api.Policy{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Use([]*sim.Pod{full})
	ends := map[sim.End]int{}
	send := func() { r.Send(&sim.Request{Work: 1}, func(e sim.End, _ string) { ends[e]++ }) }
	send()
	w.Run(time.Second)
	if ends[sim.Unserved] != 1 {
		t.Errorf("nobody else is there: %v", ends)
	}
	r.Use([]*sim.Pod{full, (&sim.Pod{ID: "free", Slots: 1, Service: time.Millisecond}).Start(w)})
	for range 4 {
		send()
	}
	w.Run(time.Second)
	if ends[sim.Answered] != 4 {
		t.Errorf("%v", ends)
	}
}
