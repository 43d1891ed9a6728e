package bed

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/sim"
)

func tailed(seed uint64) Scene {
	return Scene{
		Hosts: []string{"a", "b"}, Rtt: func(string, string) time.Duration { return time.Millisecond },
		Processors: 2, Law: sim.Bimodal(0.01, 100), Seed: seed, Warm: 10 * time.Second, Span: 1000 * time.Second,
		Pods:  []ScenePod{{"a", 40 * time.Millisecond}, {"b", 40 * time.Millisecond}},
		Loads: []SceneLoad{{Host: "a", Rps: 40}, {Host: "b", Rps: 20}},
	}
}

// Requests of open loads come at random, each independent of those before; their work follows the law. The
// seed says all of it.
func TestArrivalLaw(t *testing.T) {
	s, other := tailed(1), tailed(2)
	for _, l := range s.Loads {
		got := s.arrivals(l)
		if !slices.Equal(got, s.arrivals(l)) || slices.Equal(got, other.arrivals(l)) {
			t.Error("the seed does not say what comes")
		}
		n := l.Rps * s.Span.Seconds()
		// Four standard deviations each: of a Poisson number, of the mean and of the variance of
		// exponential gaps, and of a binomial number.
		if off := math.Abs(float64(len(got)) - n); off > 4*math.Sqrt(n) {
			t.Errorf("%d requests at %s, not %.0f", len(got), l.Host, n)
		}
		var last time.Duration
		sum, squares, long, work := 0.0, 0.0, 0, 0.0
		for _, a := range got {
			gap := (a.at - last).Seconds() * l.Rps
			last = a.at
			sum, squares, work = sum+gap, squares+gap*gap, work+a.work
			if a.work > 1 {
				long++
			}
			if small := 1 / 1.99; math.Abs(a.work-small) > 1e-9 && math.Abs(a.work-100*small) > 1e-6 {
				t.Fatalf("a request of %v", a.work)
			}
		}
		if mean := sum / n; math.Abs(mean-1) > 4/math.Sqrt(n) {
			t.Errorf("gaps of %.3f in the mean", mean)
		}
		if v := squares / n; math.Abs(v-2) > 4*math.Sqrt(20/n) {
			t.Errorf("squares of gaps of %.3f in the mean, not 2", v)
		}
		if off := math.Abs(float64(long) - 0.01*n); off > 4*math.Sqrt(0.01*n) {
			t.Errorf("%d long requests of %.0f", long, n)
		}
	}
}

// Whatever the policy, the same requests come, and each is answered once.
func TestPoliciesGetTheSameRequests(t *testing.T) {
	s := tailed(3)
	s.Span = 100 * time.Second
	var want []time.Duration
	for _, l := range s.Loads {
		for _, a := range s.arrivals(l) {
			if a.at >= s.Warm {
				want = append(want, a.at)
			}
		}
	}
	slices.Sort(want)
	for _, policy := range []string{api.PolicyFastest, api.PolicyLeastConnections} {
		got, err := s.Virtually(policy)
		if err != nil {
			t.Fatal(err)
		}
		var at []time.Duration
		for _, a := range got {
			at = append(at, a.At)
		}
		if !slices.Equal(at, want) {
			t.Errorf("%s has answered %d requests, %d came", policy, len(at), len(want))
		}
	}
}
