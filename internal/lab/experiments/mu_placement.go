package experiments

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/sim/placement"
)

var muPlacement = Experiment{
	Name: "mu-placement", Source: "Mu fig. 7",
	Shows: "500 drawn cases, 300 functions that contend for 40 nodes: unfairness and unmet demand (equation 7), pods placed, and processor time, by scheduler; most-pods (smallest first) stands for the paper's ILP0, " +
		"which is to place as many pods as can be (in virtual time)",
	virtual: runMuPlacement,
	plot: &plot{x: "scheduler", series: "nodes", metric: "unfair_cpu", title: "unfairness of processors, cores for each function", more: []plot{
		{x: "scheduler", series: "nodes", metric: "unfair_memory", title: "unfairness of memory, MB for each function"},
		{x: "scheduler", series: "nodes", metric: "unmet_cpu", title: "unmet demand, cores for each function"},
		{x: "scheduler", series: "nodes", metric: "round", title: "processor time of all decisions of a case, ms"},
	}},
}

// MB of a GiB, as Mu counts.
const megabytes = 1 << 30 / 1e6

func runMuPlacement(ctx context.Context, e *env) error {
	const nodes, functions = 40, 300
	schedulers := slices.DeleteFunc(placement.Schedulers(), func(s placement.Scheduler) bool { return s.Name == "throughput" || s.Near })
	schedulers = append(schedulers, placement.MostPods)
	type sums struct{ unfair, unmet [2]float64 }
	all := map[string]*sums{}
	placed, took := map[string]float64{}, map[string][]float64{}
	cases := quickly(e.Quick, 5, 500)
	for i := range cases {
		s := placement.Mu(nodes, functions, e.Seed+uint64(i))
		for _, by := range schedulers {
			r, err := placement.Run(ctx, s, by)
			if err != nil {
				return fmt.Errorf("mu-placement, case %d: %w", i, err)
			}
			q := placement.Measure(r)
			if all[by.Name] == nil {
				all[by.Name] = &sums{}
			}
			for j := range q.Unfair {
				all[by.Name].unfair[j] += q.Unfair[j] / float64(cases)
				all[by.Name].unmet[j] += q.Unmet[j] / float64(cases)
			}
			placed[by.Name] += 100 * q.Placed / float64(cases)
			took[by.Name] = append(took[by.Name], r.Took.Seconds()*1e3)
		}
		if i%100 == 99 {
			e.Say("%d of %d cases", i+1, cases)
		}
	}
	for _, by := range schedulers {
		name, x := by.Name, all[by.Name]
		params := map[string]any{"scheduler": name, "nodes": nodes, "functions": functions, "cases": cases}
		e.row(Row{Params: params, Metric: "unfair_cpu", Unit: "cores", Measured: rounded(x.unfair[0])})
		e.row(Row{Params: params, Metric: "unfair_memory", Unit: "MB", Measured: rounded(x.unfair[1] * megabytes)})
		e.row(Row{Params: params, Metric: "unmet_cpu", Unit: "cores", Measured: rounded(x.unmet[0])})
		e.row(Row{Params: params, Metric: "unmet_memory", Unit: "MB", Measured: rounded(x.unmet[1] * megabytes)})
		e.row(Row{Params: params, Metric: "placed", Unit: "%", Measured: rounded(placed[name])})
		slices.Sort(took[name])
		r := e.row(Row{Params: params, Metric: "round", Unit: "ms", Measured: rounded(took[name][len(took[name])/2]), Note: "of the processor, median of the cases; differs from run to run"})
		switch {
		case name == placement.Baseline.Name:
			r.Paper = known(200)
		case strings.HasPrefix(name, "drf"):
			r.Paper = known(500)
			require(e, r, r.Measured <= 10, "a round of all functions is to take 10 ms at most")
		}
	}
	for _, by := range schedulers {
		if !strings.HasPrefix(by.Name, "drf") {
			continue
		}
		for j, metric := range []string{"unfair_cpu_over", "unfair_memory_over"} {
			params := map[string]any{"scheduler": by.Name, "over": placement.MostPods.Name}
			r := e.row(Row{Params: params, Metric: metric, Unit: "1", Paper: known(0.5), Measured: rounded(all[by.Name].unfair[j] / all[placement.MostPods.Name].unfair[j])})
			require(e, r, j > 0 || r.Measured <= 0.5, "processors are to be divided twice as fairly")
		}
	}
	return nil
}
