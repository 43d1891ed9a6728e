package scale

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// replicas that can do rps each, all ready.
func replicas(n int, rps float64, waiting ...int) (out []Replica) {
	for i := range n {
		r := Replica{ID: fmt.Sprint("r", i), RPS: rps, Exec: 100 * time.Millisecond, Ready: true}
		if i < len(waiting) {
			r.Waiting = waiting[i]
		}
		out = append(out, r)
	}
	return out
}

var rules = Rules{Min: 0, Max: 100, Concurrency: 10, SLO: time.Second}

func TestDecide(t *testing.T) {
	for _, x := range []struct {
		name        string
		rules       Rules
		demand      Demand
		want        int
		rate, queue int
		why         string
	}{
		{"nothing", rules, Demand{}, 0, 0, 0, "as many"},
		{"from zero", rules, Demand{Rate: 3, Waiting: 3}, 1, 1, 0, "first request"},
		{"keeps up", rules, Demand{Rate: 250, Replicas: replicas(3, 100)}, 3, 3, 0, "as many"},
		{"the rate", rules, Demand{Rate: 380, Replicas: replicas(3, 100)}, 4, 4, 0, "4 for the rate"},
		{"the queue", rules, Demand{Rate: 180, Replicas: replicas(2, 100, 190, 50)}, 4, 2, 2, "2 for what waits"},
		{"a short queue", rules, Demand{Rate: 180, Replicas: replicas(2, 100, 40, 30)}, 2, 2, 0, "as many"},
		{"a burst that meets few", rules, Demand{Rate: 1000, Replicas: replicas(2, 100)}, 10, 10, 0, "10 for the rate"},
		{"a burst beyond the floor of growth", rules, Demand{Rate: 9000, Replicas: replicas(2, 100)}, 64, 90, 0, "at most 64"},
		{"not more than twice", Rules{Max: 100, SLO: time.Second, Burst: 3}, Demand{Rate: 1000, Replicas: replicas(2, 100)}, 4, 10, 0,
			"at most 4"},
		{"not more than its own growth", Rules{Max: 100, SLO: time.Second, Burst: 3, Growth: 3},
			Demand{Rate: 1000, Replicas: replicas(2, 100)}, 6, 10, 0, "at most 6"},
		{"growth below 1", Rules{Max: 100, SLO: time.Second, Burst: 1, Growth: 0.1}, Demand{Rate: 1000, Replicas: replicas(2, 100)},
			2, 10, 0, "at most 2"},
		{"most", Rules{Max: 5, SLO: time.Second}, Demand{Rate: 1000, Replicas: replicas(4, 100)}, 5, 10, 0, "5 are the most"},
		{"fewest", Rules{Min: 3, Max: 5}, Demand{}, 3, 0, 0, "3 are the fewest"},
		{"none at all", Rules{}, Demand{Rate: 5}, 0, 1, 0, "most there may be"},
		{"without objective", Rules{Max: 9}, Demand{Rate: 150, Replicas: replicas(2, 100)}, 3, 3, 0, "3 for the rate"},
		// Ten at a time, each assumed to take a fifth of the objective: 50/s.
		{"no capacity known", rules, Demand{Rate: 1000, Replicas: []Replica{{ID: "a"}}}, 20, 20, 0, "20 for the rate"},
		{"from zero, no capacity known", rules, Demand{Rate: 1e6, Waiting: 100}, 64, 64, 0, "first request"},
		{"no capacity known, nor an objective", Rules{Max: 9}, Demand{Rate: 1000, Replicas: []Replica{{ID: "a"}}}, 1, 1, 0, "as many"},
		{"nonsense", rules, Demand{Rate: math.NaN(), Refused: math.Inf(1), Waiting: -4, Replicas: []Replica{{ID: "a", RPS: math.NaN(), Waiting: -9}}}, 1, 0, 0, ""},
		// 300/s: the two fast ones do 200, the rest takes two of 50.
		{"fast ones first", rules, Demand{Rate: 300, Replicas: append(replicas(2, 100), Replica{ID: "s0", RPS: 50, Ready: true}, Replica{ID: "s1", RPS: 50, Ready: true})}, 4, 4, 0, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			d := NewScaler().Decide(x.rules, x.demand, t0)
			if d.Want != x.want || d.ForRate != x.rate || d.ForQueue != x.queue || !strings.Contains(d.Why, x.why) {
				t.Errorf("%d (rate %d, queue %d) because %q; want %d (%d, %d) because %q", d.Want, d.ForRate, d.ForQueue, d.Why, x.want, x.rate, x.queue, x.why)
			}
		})
	}
}

// The replicas of a peak go one after the other over the grace, the slow ones first, and of those
// that are alike the one with the least to do.
func TestDecideFewer(t *testing.T) {
	s, now := NewScaler(), t0
	have := replicas(6, 100, 3, 1, 2)
	have[4].RPS = 50
	r := rules
	r.Current = true
	for i := range 24 {
		d := s.Decide(r, Demand{Rate: 150, Replicas: have}, now)
		now = now.Add(2 * time.Second)
		// Two are enough. Of the four beyond, a quarter of the grace takes one.
		want := max(2, 6-i/4)
		if d.Want != want || d.Less != i+1 {
			t.Fatalf("epoch %d: %d (%s), less for %d; want %d", i, d.Want, d.Why, d.Less, want)
		}
		if stay := []string{"r0", "r2", "r1", "r3", "r5", "r4"}; i == 0 && !slices.Equal(d.Stay, stay) {
			t.Errorf("they stay in the order %v, want %v", d.Stay, stay)
		}
	}
	// A peak that comes back meets what its part of the grace has left, and starts it anew.
	s = NewScaler()
	least := 6
	for i := range 64 {
		rate := 150.0
		if i%8 == 7 {
			rate = 560
		}
		d := s.Decide(r, Demand{Rate: rate, Replicas: replicas(6, 100)}, now)
		if least = min(least, d.Want); rate > 500 && (d.Want != 6 || d.Less != 0) {
			t.Fatalf("epoch %d: %d: %s", i, d.Want, d.Why)
		}
		now = now.Add(2 * time.Second)
	}
	if least != 5 {
		t.Errorf("between two peaks %d stay", least)
	}
}

// Whatever comes, growth has its limit, fewer never means fewer than the epoch itself needs, and
// after the grace only what is needed is left.
func TestDecideFewerProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		s, now := NewScaler(), t0
		x := Rules{Max: 1 + r.IntN(60), Concurrency: 10, SLO: time.Second, Grace: 1 + r.IntN(20), Burst: 1 + r.IntN(20),
			Growth: 1 + 2*r.Float64(), Current: true}
		have := 1 + r.IntN(x.Max)
		for i := range 200 {
			rate := 0.0
			if i < 150 && r.IntN(3) == 0 {
				rate = 6000 * math.Pow(r.Float64(), 3)
			} else if i >= 150 {
				rate = 60
			}
			d := s.Decide(x, Demand{Rate: rate, Replicas: replicas(have, 100)}, now)
			now = now.Add(2 * time.Second)
			need := min(d.Asked, x.Max)
			switch limit := max(x.Burst, int(x.Growth*float64(have))); {
			case d.Want > max(have, min(limit, x.Max)):
				t.Fatalf("epoch %d: from %d to %d of %+v", i, have, d.Want, x)
			case d.Want < min(need, have):
				t.Fatalf("epoch %d: %d, which needs %d", i, d.Want, need)
			}
			have = max(d.Want, 1)
		}
		if have != 1 {
			t.Fatalf("after 50 epochs that need 1: %d of %+v", have, x)
		}
	}
}

func TestDecideToZero(t *testing.T) {
	s, now := NewScaler(), t0
	s.Decide(rules, Demand{Rate: 5, Replicas: replicas(1, 100)}, now)
	for i := range 40 {
		now = now.Add(2 * time.Second)
		d := s.Decide(rules, Demand{Replicas: replicas(1, 100)}, now)
		if want := 1; i < 29 && d.Want != want || i >= 29 && d.Want != 0 {
			t.Fatalf("after %d s without a request: %d (%s)", 2*(i+1), d.Want, d.Why)
		}
	}
	// Not where one must be there, not while somebody waits, and not by a clock that
	// jumps back.
	r := rules
	r.Min = 1
	if d := s.Decide(r, Demand{Replicas: replicas(1, 100)}, now.Add(time.Hour)); d.Want != 1 {
		t.Errorf("min 1: %d", d.Want)
	}
	if d := s.Decide(rules, Demand{Replicas: replicas(1, 100, 2)}, now.Add(2*time.Hour)); d.Want < 1 {
		t.Errorf("somebody waits: %d", d.Want)
	}
	if d := s.Decide(rules, Demand{Replicas: replicas(1, 100)}, t0); d.Want != 1 {
		t.Errorf("in the past: %d", d.Want)
	}
}

// What the predictor remembers of a busy time neither keeps replicas nor starts one.
func TestDecideStaysAtZero(t *testing.T) {
	s, now := NewScaler(), t0
	r := rand.New(rand.NewPCG(8, 8))
	have := 0
	for i := range 900 {
		rate := 0.0
		if i < 300 {
			rate = 800 * r.Float64()
		}
		d := s.Decide(rules, Demand{Rate: rate, Replicas: replicas(have, 100)}, now)
		now = now.Add(2 * time.Second)
		if have = d.Want; i > 335 && have != 0 {
			t.Fatalf("%d epochs after the last request: %d because %s", i-300, have, d.Why)
		}
	}
}

func TestDecideImpossibleObjective(t *testing.T) {
	s := NewScaler()
	r := rules
	r.SLO = 50 * time.Millisecond
	d := s.Decide(r, Demand{Rate: 150, Replicas: replicas(2, 100, 30, 30)}, t0)
	if d.ForQueue != 0 || d.ForRate != 3 || !strings.Contains(d.Warning, "slo") {
		t.Errorf("%+v", d)
	}
	if d = s.Decide(r, Demand{Rate: 150, Replicas: replicas(2, 100, 30, 30)}, t0.Add(2*time.Second)); d.Warning != "" {
		t.Errorf("warned twice: %q", d.Warning)
	}
}

// Whoever takes three epochs to start must be ordered that much earlier.
func TestDecideLooksAsFarAsAStartTakes(t *testing.T) {
	s := NewScaler()
	if d := s.Decide(rules, Demand{}, t0); d.Horizon != 1 {
		t.Errorf("horizon %d where nothing has started yet", d.Horizon)
	}
	s.Starts.Observe(-1)
	s.Starts.Observe(0)
	for range 30 {
		s.Starts.Observe(5 * time.Second)
	}
	if d := s.Decide(rules, Demand{}, t0); d.Horizon != 4 {
		t.Errorf("horizon %d for starts of %v", d.Horizon, s.Starts.Time())
	}
	for range 30 {
		s.Starts.Observe(time.Hour)
	}
	if d := s.Decide(rules, Demand{}, t0); d.Horizon != MaxHorizon {
		t.Errorf("horizon %d", d.Horizon)
	}
}

func TestAdmit(t *testing.T) {
	busy := Load{Ahead: 109, RPS: 100, Concurrency: 10, Exec: 100 * time.Millisecond}
	for _, x := range []struct {
		name  string
		left  time.Duration
		loads []Load
		ok    bool
		retry time.Duration
	}{
		{"no objective", 0, []Load{busy}, true, 0},
		{"no replica", time.Second, nil, true, 0},
		{"nothing known", time.Second, []Load{{Ahead: 1000, Concurrency: 10}}, true, 0},
		{"full", time.Second, []Load{busy}, false, time.Second},
		{"longer", 1200 * time.Millisecond, []Load{busy}, true, 0},
		{"one is free", time.Second, []Load{busy, {RPS: 100, Concurrency: 10, Exec: 100 * time.Millisecond}}, true, 0},
		{"slower than the objective", 50 * time.Millisecond, []Load{{RPS: 100, Concurrency: 10, Exec: 100 * time.Millisecond}}, true, 0},
		{"very full", time.Second, []Load{{Ahead: 409, RPS: 100, Concurrency: 10, Exec: 100 * time.Millisecond}}, false, 4 * time.Second},
		{"starts in time", 3 * time.Second, []Load{{Start: 2 * time.Second, Concurrency: 10}, busy}, true, 0},
		{"starts too late, with a place", time.Second, []Load{busy, {Ahead: 9, Start: 2 * time.Second, Concurrency: 10}}, true, 0},
		{"starts too late, and is full", time.Second, []Load{{Ahead: 109, Start: 2 * time.Second, RPS: 100, Concurrency: 10}}, false, 3 * time.Second},
		{"no number", time.Second, []Load{{Ahead: 100, RPS: math.NaN(), Concurrency: 10}}, true, 0},
	} {
		if ok, retry := Admit(x.left, len(x.loads), func(i int) Load { return x.loads[i] }); ok != x.ok || retry != x.retry {
			t.Errorf("%s: %v, %v", x.name, ok, retry)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		Admit(time.Second, 1, func(int) Load { return busy })
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
