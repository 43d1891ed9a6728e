package promises

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim"
)

// RouteTails is the experiment route-tails.
var RouteTails = experiment.Experiment{
	Name: "route-tails", Source: "no paper: where estimates mislead",
	Shows: "few requests that take a hundred times as long, a pod that hangs, pods of very different speed, fifty " +
		"routers and long ways: fastest against the best of the other policies, C3 and Prequal among them (in virtual time)",
	Virtual: runRouteTails,
}

// tail is a scene of route-tails.
type tail struct {
	name    string
	pods    []sim.Pod
	routers int
	rtt     time.Duration
	work    sim.Law
	load    float64       // of what the pods can do
	hang    time.Duration // of one of them, in the middle
	// mean and p99 are the most that fastest may take next to the best of the others: what was measured,
	// and a little.
	mean, p99 float64
}

// alike are n pods.
func alike(n int, p sim.Pod) []sim.Pod { return slices.Repeat([]sim.Pod{p}, n) }

func tails() []tail {
	const ms = time.Millisecond
	cores := sim.Pod{Service: 10 * ms, Cores: 2}
	many := sim.Pod{Service: 10 * ms, Cores: 2, Slots: 32}
	places := sim.Pod{Service: 20 * ms, Slots: 2}
	var eight, four []sim.Pod
	for i := range 10 {
		eight = append(eight, sim.Pod{Service: 10 * ms << (i % 4), Slots: 2})
		four = append(four, sim.Pod{Service: 20 * ms << (i % 3), Slots: 4})
	}
	return []tail{
		{tailsName, alike(10, cores), 1, ms, sim.Bimodal(0.01, 100), 0.8, 0, 1.05, 1.25},
		{"lognormal, cv 5, no concurrency", alike(10, cores), 1, ms, sim.Lognormal(5), 0.8, 0, 1.05, 1.1},
		{"2 % × 500, more places than processors", alike(8, many), 5, ms, sim.Bimodal(0.02, 500), 0.6, 0, 1.05, 1.1},
		{"one of ten hangs for 10 s", alike(10, places), 20, ms, sim.Exponential, 0.6, 10 * time.Second, 1.05, 1.1},
		{"speeds 1 to 8", eight, 10, ms, sim.Exponential, 0.85, 0, 1.05, 1.1},
		{"50 routers", alike(10, places), 50, ms, sim.Exponential, 0.95, 0, 1.05, 1.1},
		{"200 ms away, speeds 1 to 4", four, 50, 200 * ms, sim.Exponential, 0.8, 0, 1.05, 1.1},
	}
}

// scene is the tail as a scene with so many requests.
func (x *tail) scene(requests int) *randomScene {
	s := &randomScene{at: map[string]spot{"site": {}}, own: x.rtt, law: x.work, load: x.load}
	for i, p := range x.pods {
		p.ID, p.Place, p.Hidden = fmt.Sprint("pod-", i), "site", p.Slots == 0
		can := float64(p.Slots)
		if p.Cores > 0 {
			can = p.Cores
		}
		p.Weight = can / p.Service.Seconds()
		s.rps += x.load * p.Weight
		s.pods = append(s.pods, p)
	}
	for range x.routers {
		s.routers, s.shares = append(s.routers, "site"), append(s.shares, 1/float64(x.routers))
	}
	s.span = time.Duration(float64(requests) / s.rps * float64(time.Second))
	if x.hang > 0 {
		s.pods[3].Hangs = []sim.Hang{{From: s.span / 2, To: s.span/2 + min(x.hang, s.span/4)}}
	}
	return s
}

func runRouteTails(ctx context.Context, e *experiment.Env) error {
	for _, x := range tails() {
		by := map[string]experiment.Outcome{}
		growth := 0.0
		for _, policy := range append([]string{api.PolicyFastest}, randomPolicies...) {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("route-tails: %w", err)
			}
			s := x.scene(experiment.Quickly(e.Quick, 20_000, 200_000))
			stats, ok, err := s.answers(e.Seed, policy)
			if err != nil {
				return fmt.Errorf("route-tails, %s by %s: %w", x.name, policy, err)
			}
			params := map[string]any{"scene": x.name, "policy": policy}
			if !ok {
				e.Row(experiment.Row{Params: params, Metric: "overrun", Unit: "1", Measured: 1})
				continue
			}
			if policy == api.PolicyFastest {
				growth = lastOverFirst(stats.Times)
			}
			o := experiment.OutcomeOf(stats, s.span)
			by[policy] = o
			e.Row(experiment.Row{Params: params, Metric: "mean", Unit: "ms", Measured: experiment.Rounded(o.Mean)})
			e.Row(experiment.Row{Params: params, Metric: "p99", Unit: "ms", Measured: experiment.Rounded(o.P99)})
		}
		ours, ran := by[api.PolicyFastest]
		delete(by, api.PolicyFastest)
		params := map[string]any{"scene": x.name, "policy": api.PolicyFastest}
		if !ran || len(by) == 0 {
			e.Row(experiment.Row{Params: params, Metric: "overrun", Unit: "1", Measured: 1}).Short = "requests stayed behind"
			continue
		}
		best := experiment.Winner(by, slices.Sorted(maps.Keys(by)))
		params["winner"] = best
		// A quick run spends more of its time on learning.
		e.Ratio(params, "mean_over_best", ours.Mean, by[best].Mean, x.mean*experiment.Quickly(e.Quick, 1.1, 1.0))
		e.Ratio(params, "p99_over_best", ours.P99, by[best].P99, x.p99*experiment.Quickly(e.Quick, 1.25, 1.0))
		r := e.Row(experiment.Row{Params: params, Metric: "last_quarter_over_first", Unit: "1", Measured: experiment.Rounded(growth)})
		if most := experiment.Quickly(e.Quick, 2, 1.5); growth > most {
			r.Short = fmt.Sprintf("%.3g; the bound is %.3g", growth, most)
		}
	}
	return nil
}

// lastOverFirst is the mean of the last quarter of the times over that of the first.
func lastOverFirst(times []float64) float64 {
	mean := func(of []float64) (sum float64) {
		for _, t := range of {
			sum += t / float64(len(of))
		}
		return sum
	}
	n := len(times) / 4
	if n == 0 {
		return math.NaN()
	}
	return mean(times[len(times)-n:]) / mean(times[:n])
}
