package experiments

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/sim/placement"
)

var oakestraSchedulers = Experiment{
	Name: "oakestra-schedulers", Source: "Oakestra fig. 10",
	Shows:   "processor time of one decision by scheduler, for 10 to 100,000 workers of different sizes, and how many a second that is (in virtual time)",
	virtual: runOakestraSchedulers,
	plot:    &plot{x: "workers", series: "scheduler", metric: "decision_p50", title: "processor time of one decision, us, by workers"},
}

func runOakestraSchedulers(ctx context.Context, e *env) error {
	sizes := quickly(e.Quick, []int{10, 100, 500, 10_000}, []int{10, 50, 100, 200, 300, 400, 500, 1_000, 10_000, 100_000})
	for _, n := range sizes {
		for _, by := range []placement.Scheduler{{Name: "rom"}} {
			e.Say("%d workers by %s", n, by.Name)
			s := placement.Random(n, 1, e.Seed)
			// Small services, so that none of the sizes is full at the end.
			s.Services = placement.Equal(1, 1, 50).Services
			took, err := placement.Speed(ctx, s, by, min(2000, 20*n))
			if err != nil {
				return fmt.Errorf("oakestra-schedulers: %w", err)
			}
			params := map[string]any{"workers": n, "scheduler": by.Name}
			us := func(q float64) float64 { return rounded(float64(quantile(took, q).Nanoseconds()) / 1e3) }
			const note = "of the processor; differs from run to run"
			e.row(Row{Params: params, Metric: "decision_p50", Unit: "us", Measured: us(0.5), Note: note})
			e.row(Row{Params: params, Metric: "decision_p99", Unit: "us", Measured: us(0.99), Note: note})
			sum := time.Duration(0)
			for _, d := range took {
				sum += d
			}
			r := e.row(Row{Params: params, Metric: "placements", Unit: "1/s of one processor", Measured: rounded(float64(len(took)) / sum.Seconds()), Note: note})
			require(e, r, n > 10_000 || r.Measured >= 5_000, "at least 5,000 decisions a second and processor with up to 10,000 workers")
		}
	}
	return nil
}
