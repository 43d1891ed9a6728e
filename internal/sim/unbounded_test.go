package sim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/sim"
)

// unbounded runs replicas whose routers know of no places, as services are that say
// nothing of how much they take: how many requests these execute at once is their own
// affair (threads that routers do not see, or processors that requests share).
func unbounded(t *testing.T, policy string, pods []sim.Pod, law sim.Law, rps float64) *sim.Stats {
	t.Helper()
	hidden := slices.Clone(pods)
	for i := range hidden {
		hidden[i].Hidden = true
	}
	return served(t, policy, hidden, law, rps)
}

// served is what two routers get from pods at one place.
func served(t *testing.T, policy string, pods []sim.Pod, law sim.Law, rps float64) *sim.Stats {
	t.Helper()
	return servedBy(t, 11, policy, pods, law, rps)
}

// servedBy is served with a seed.
func servedBy(t *testing.T, seed uint64, policy string, pods []sim.Pod, law sim.Law, rps float64) *sim.Stats {
	t.Helper()
	w := sim.New(seed)
	all := make([]*sim.Pod, len(pods))
	for i := range pods {
		p := pods[i]
		p.ID, p.Place = fmt.Sprint("p", i), "here"
		all[i] = p.Start(w)
	}
	s := &sim.Stats{From: time.Minute}
	for k := range 2 {
		place := fmt.Sprint("router", k)
		r, err := sim.NewRouter(w, place, api.Policy{Name: policy},
			func(string) *sim.Link { return &sim.Link{RTT: time.Millisecond} })
		if err != nil {
			t.Fatal(err)
		}
		r.Use(all)
		sim.Open(w, place, r, sim.Works(law, 0, 0), sim.Steady(rps/2), rps/2, 5*time.Minute, s)
	}
	w.Run(6 * time.Minute)
	return s
}

// The default for requests is fastest, and without places where nothing is said. With
// equal replicas it must not be worse than the fewest connections, with unequal ones it
// must be clearly better.
func TestFastestWithoutPlaces(t *testing.T) {
	const ms = time.Millisecond
	threads := func(n int, took ...time.Duration) (out []sim.Pod) {
		for _, d := range took {
			out = append(out, sim.Pod{Slots: n, Service: d})
		}
		return out
	}
	cores := func(n float64, took ...time.Duration) (out []sim.Pod) {
		for _, d := range took {
			out = append(out, sim.Pod{Cores: n, Service: d})
		}
		return out
	}
	for name, c := range map[string]struct {
		pods  []sim.Pod
		law   sim.Law
		full  float64 // requests a second that are all they can
		equal bool
	}{
		"equal threads":    {threads(8, 100*ms, 100*ms, 100*ms, 100*ms), sim.Exponential, 320, true},
		"equal processors": {cores(2, 50*ms, 50*ms, 50*ms, 50*ms), sim.Exponential, 160, true},
		"no limit at all":  {threads(0, 50*ms, 50*ms, 50*ms), sim.Exponential, 200, true},
		"a slow third":     {threads(8, 50*ms, 50*ms, 200*ms), sim.Exponential, 360, false},
		"a small third":    {append(cores(4, 50*ms, 50*ms), cores(1, 100*ms)...), sim.Exponential, 170, false},
		"slow, no limit":   {threads(0, 20*ms, 20*ms, 100*ms), sim.Exponential, 200, false},
	} {
		for _, load := range []float64{0.3, 0.6, 0.85} {
			got := unbounded(t, api.PolicyFastest, c.pods, c.law, load*c.full)
			least := unbounded(t, api.PolicyLeastConnections, c.pods, c.law, load*c.full)
			mean, tail := got.Mean()/least.Mean(), got.Percentile(0.99)/least.Percentile(0.99)
			t.Logf("%-16s %.0f %%: mean %.1f ms, %.2f of least connections; p99 %.2f", name, 100*load, 1e3*got.Mean(),
				mean, tail)
			if c.equal && (mean > 1.05 || tail > 1.07) || !c.equal && (mean > 0.97 || tail > 0.8) {
				t.Errorf("%s at %.0f %%: its mean is %.2f, its p99 %.2f of least connections", name, 100*load, mean,
					tail)
			}
		}
	}
}

// Whatever the law of the work, fastest is no worse than the fewest connections where replicas are
// equal: an answer that took a hundred times as long says nothing of its replica. The worst of these
// scenes is 1.04, at half load processors shared by few, in the mean of eight seeds. With 1 % of 100 times
// the work one seed differs from another by 3 %, so what seems worse by one is judged by eight.
func TestFastestOfEquals(t *testing.T) {
	const ms = time.Millisecond
	for name, law := range map[string]sim.Law{
		"fixed": sim.Fixed, "exponential": sim.Exponential, "lognormal 8": sim.Lognormal(8),
		"1 % × 100": sim.Bimodal(0.01, 100), "2 % × 500": sim.Bimodal(0.02, 500),
	} {
		for form, pod := range map[string]sim.Pod{
			"processors": {Service: 20 * ms, Cores: 2, Hidden: true}, "places": {Service: 20 * ms, Slots: 2},
			"places beyond processors": {Service: 20 * ms, Slots: 16, Cores: 2},
		} {
			for _, load := range []float64{0.5, 0.8} {
				pods := slices.Repeat([]sim.Pod{pod}, 6)
				rps := load * 6 * 2 / 0.02
				ratio := func(seed uint64) float64 {
					got := servedBy(t, seed, api.PolicyFastest, pods, law, rps)
					return got.Mean() / servedBy(t, seed, api.PolicyLeastConnections, pods, law, rps).Mean()
				}
				first := ratio(11)
				t.Logf("%s, %s, %.0f %%: mean %.3f of least connections", name, form, 100*load, first)
				if first <= 1.07 {
					continue
				}
				sum := first
				for seed := range uint64(7) {
					sum += ratio(12 + seed)
				}
				if mean := sum / 8; mean > 1.06 {
					t.Errorf("%s, %s at %.0f %%: its mean is %.3f of least connections by eight seeds", name, form, 100*load, mean)
				}
			}
		}
	}
}
