package oakestra

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim/placement"
)

// Split is the experiment oakestra-split.
var Split = experiment.Experiment{
	Name: "oakestra-split", Source: "Oakestra fig. 2",
	Shows: "45 workers as one cluster of 45 to 45 clusters of one, 100 deployments: " +
		"processor time of the root's and the cluster's decision (in virtual time)",
	Virtual: runOakestraSplit,
	Plot:    &experiment.Plot{X: "clusters", Series: "tier", Metric: "decision", Title: "processor time of the decisions about a deployment, us, by clusters of 45 workers"},
}

func runOakestraSplit(ctx context.Context, e *experiment.Env) error {
	const workers, deployments = 45, 100
	splits := []int{1, 3, 5, 9, 15, 45}
	type cost struct{ root, cluster []time.Duration }
	costs := make([]cost, len(splits))
	// In turns, so that what else the machine does hits all of them.
	for range experiment.Quickly(e.Quick, 5, 50) {
		for i, clusters := range splits {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("oakestra-split: %w", err)
			}
			s := placement.Equal(workers, workers/clusters, deployments)
			t := placement.NewTiers(s, placement.Scheduler{Name: "rom"})
			root, cluster, err := t.PlaceEach()
			if err != nil {
				return fmt.Errorf("oakestra-split, %d clusters: %w", clusters, err)
			}
			costs[i].root, costs[i].cluster = append(costs[i].root, root...), append(costs[i].cluster, cluster...)
		}
	}
	best, least := 0, math.Inf(1)
	by := map[int]float64{}
	for i, clusters := range splits {
		params := map[string]any{"clusters": clusters, "workers_each": workers / clusters}
		sum := 0.0
		for _, x := range []struct {
			tier string
			took []time.Duration
		}{{"root", costs[i].root}, {"cluster", costs[i].cluster}} {
			us := float64(experiment.Quantile(x.took, 0.5).Nanoseconds()) / 1e3
			sum += us
			e.Row(experiment.Row{Params: experiment.With(params, "tier", x.tier), Metric: "decision", Unit: "us", Measured: experiment.Rounded(us), Note: "of the processor, median; differs from run to run"})
		}
		e.Row(experiment.Row{Params: experiment.With(params, "tier", "both"), Metric: "decision", Unit: "us", Measured: experiment.Rounded(sum), Note: "of the processor, median; differs from run to run"})
		if by[clusters] = sum; sum < least {
			best, least = clusters, sum
		}
	}
	r := e.Row(experiment.Row{Params: map[string]any{}, Metric: "cheapest", Unit: "clusters", Paper: experiment.Known(9), Measured: float64(best)})
	experiment.Require(e, r, best != 1 && best != workers, "two tiers with several clusters of several workers each are to be cheaper than one tier")
	e.Row(experiment.Row{Params: map[string]any{"over": "one cluster"}, Metric: "cheapest_over", Unit: "1", Measured: experiment.Rounded(least / by[1])})
	e.Row(experiment.Row{Params: map[string]any{"over": "clusters of one"}, Metric: "cheapest_over", Unit: "1", Measured: experiment.Rounded(least / by[workers])})
	return nil
}
