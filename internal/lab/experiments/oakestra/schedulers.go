package oakestra

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim/placement"
)

// Schedulers is the experiment oakestra-schedulers.
var Schedulers = experiment.Experiment{
	Name: "oakestra-schedulers", Source: "Oakestra fig. 10",
	Shows: "processor time of one decision by rom and by ldp (within 20 ms of another service, by the coordinates of the workers), for 10 to 100,000 workers at places of PlanetLab, " +
		"and how many instances are truly that near (in virtual time)",
	Virtual: runOakestraSchedulers,
	Plot:    &experiment.Plot{X: "workers", Series: "scheduler", Metric: "decision_p50", Title: "processor time of one decision, us, by workers"},
}

// The most that a decision may take, in us, by scheduler and workers: about what was
// measured on a busy machine, and a half.
var mostDecision = map[string]map[int]float64{
	"rom": {500: 100, 10_000: 200},
	"ldp": {500: 200, 10_000: 3000},
}

func runOakestraSchedulers(ctx context.Context, e *experiment.Env) error {
	sizes := experiment.Quickly(e.Quick, []int{10, 100, 500, 10_000}, []int{10, 50, 100, 200, 300, 400, 500, 1_000, 10_000, 100_000})
	for _, n := range sizes {
		decisions := experiment.Quickly(e.Quick, 100, min(1000, 100*n))
		if n > 10_000 {
			decisions = 100
		}
		s, err := placement.NearPlaces(n, decisions, e.Seed)
		if err != nil {
			return fmt.Errorf("oakestra-schedulers: %w", err)
		}
		for _, by := range []placement.Scheduler{{Name: "rom"}, {Name: "ldp", Near: true}} {
			e.Say("%d workers by %s", n, by.Name)
			pace, err := placement.Speed(ctx, s, by)
			if err != nil {
				return fmt.Errorf("oakestra-schedulers: %w", err)
			}
			params := map[string]any{"workers": n, "scheduler": by.Name}
			us := func(q float64) float64 {
				return experiment.Rounded(float64(experiment.Quantile(pace.Took, q).Nanoseconds()) / 1e3)
			}
			const note = "of the processor; differs from run to run"
			r := e.Row(experiment.Row{Params: params, Metric: "decision_p50", Unit: "us", Measured: us(0.5), Note: note})
			if most, ok := mostDecision[by.Name][n]; ok {
				experiment.Require(e, r, r.Measured <= most, fmt.Sprintf("a decision is to take %.4g us at most", most))
			}
			e.Row(experiment.Row{Params: params, Metric: "decision_p99", Unit: "us", Measured: us(0.99), Note: note})
			sum := time.Duration(0)
			for _, d := range pace.Took {
				sum += d
			}
			e.Row(experiment.Row{Params: params, Metric: "decisions", Unit: "1/s of one processor", Measured: experiment.Rounded(float64(len(pace.Took)) / sum.Seconds()), Note: note})
			e.Row(experiment.Row{Params: params, Metric: "placed", Unit: "%", Measured: experiment.Rounded(100 * float64(pace.Placed) / float64(len(pace.Took)))})
			e.Row(experiment.Row{Params: params, Metric: "within", Unit: "%", Measured: experiment.Rounded(100 * float64(pace.Kept) / float64(max(1, pace.Placed))), Note: "of the placed ones, truly within 20 ms"})
		}
	}
	return nil
}
