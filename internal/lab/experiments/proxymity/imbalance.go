package proxymity

import (
	"context"
	"math"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
)

// Imbalance is the experiment proxymity-imbalance.
var Imbalance = experiment.Experiment{
	Name: "proxymity-imbalance", Source: "Proxy-mity fig. 11",
	Shows: "what nearness costs in balance: the spread of load over eleven replicas, by alpha and the number of cities that send",
	Lab:   runImbalance,
	Plot:  &experiment.Plot{X: "alpha", Series: "senders", Metric: "share_stddev", Title: "spread of the load over 11 replicas"},
}

// Known values at alpha 1 (exponential, beta 0.5, localrtt 3 ms), and what the
// paper prints.
var imbalances = map[int]struct{ exact, paper float64 }{
	1: {0.2563, 0.25}, 2: {0.1731, 0.17}, 11: {0.0024, 0.01},
}

func runImbalance(_ context.Context, e *experiment.Env) error {
	_, rtt, err := cities()
	if err != nil {
		return err
	}
	for k := 1; k <= len(rtt); k++ {
		for step := 0; step <= 10; step++ {
			alpha := float64(step) / 10
			weights := make([][]float64, len(rtt))
			for i := range rtt {
				if weights[i], err = policyShares(proximity(alpha, 0.5, api.DecayExponential, localRTT*time.Millisecond), rtt[i], i, e.Seed); err != nil {
					return err
				}
			}
			r := experiment.Row{
				Params: map[string]any{"alpha": alpha, "senders": k}, Metric: "share_stddev", Unit: "1",
				Measured: imbalance(weights, k),
			}
			if known, ok := imbalances[k]; ok {
				// It is linear in alpha.
				want := known.exact * alpha
				r.Expected = &want
				r.Short = within(r.Measured, want, 0.002, "0.002")
				if alpha == 1 {
					paper := known.paper
					r.Paper = &paper
				}
			}
			e.Row(r)
		}
	}
	e.Say("%s: computed, nothing is emulated", e.Name)
	return nil
}

// imbalance is the mean over all sets of k senders of the standard deviation over
// replicas of their share of the load.
func imbalance(weights [][]float64, k int) float64 {
	n := len(weights)
	sum, sets := 0.0, 0
	load := make([]float64, n)
	var choose func(from, left int)
	choose = func(from, left int) {
		if left == 0 {
			squares := 0.0
			for _, l := range load {
				d := l/float64(k) - 1/float64(n)
				squares += d * d
			}
			sum += math.Sqrt(squares / float64(n))
			sets++
			return
		}
		for s := from; s <= n-left; s++ {
			for i, w := range weights[s] {
				load[i] += w
			}
			choose(s+1, left-1)
			for i, w := range weights[s] {
				load[i] -= w
			}
		}
	}
	choose(0, k)
	return sum / float64(sets)
}
