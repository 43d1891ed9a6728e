package study

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim/placement"
)

// Placement is the experiment study-placement.
var Placement = experiment.Experiment{
	Name: "study-placement", Source: "study table V, fig. 4, 5",
	Shows: "three pods more in each of 16 iterations, placed by each scheduler on the study's eight nodes: how many are where the study has them (by its order for Kubernetes, and by throughput), and what clients at the edge get answered " +
		"(in virtual time)",
	Virtual: runStudyPlacement,
	Plot:    &experiment.Plot{X: "pods", Series: "scheduler", Metric: "throughput", Title: "requests a second"},
}

// studyCores of a node of the study; the memory of each is for six pods.
func studyCores(node string) float64 {
	if node[:min(8, len(node))] == "edge-arm" {
		return 4
	}
	return 2
}

func runStudyPlacement(ctx context.Context, e *experiment.Env) error {
	var nodes []placement.Node
	for _, name := range slices.Sorted(maps.Keys(studyNodes)) {
		nodes = append(nodes, placement.Node{Name: name, Cores: studyCores(name), Memory: studyPods * 350 << 20, Throughput: studyNodes[name] / 60 / studyPods})
	}
	s := placement.Nodes(nodes, 0.3, 350<<20, len(studyOrder["throughput"]))
	orders := map[string][]string{}
	for _, by := range placement.Schedulers() {
		if by.Near { // there is nothing to be near to
			continue
		}
		r, err := placement.Run(ctx, s, by)
		if err != nil {
			return fmt.Errorf("study-placement: %w", err)
		}
		for _, w := range r.On[0] {
			orders[by.Name] = append(orders[by.Name], s.Workers[w].ID)
		}
		for _, table := range studyPlacements {
			row := e.Row(experiment.Row{Params: map[string]any{"scheduler": by.Name, "table": table}, Metric: "as_in_table", Unit: "%", Measured: experiment.Rounded(100 * alike(orders[by.Name], studyOrder[table])), Note: "pods on the study's node, mean of the iterations"})
			if by.Name == table {
				experiment.Require(e, row, table != "throughput" || row.Measured == 100, "placed by throughput, all are to be where the study has them")
			}
		}
	}
	for _, by := range slices.Sorted(maps.Keys(orders)) {
		for _, iteration := range experiment.Quickly(e.Quick, []int{2, 4}, []int{2, 4, 6, 8, 12, 16}) {
			if err := ctx.Err(); err != nil {
				return err
			}
			c := studyCase{policy: api.PolicyFastest, placement: by, iteration: iteration, gateway: "edge", pods: orders[by][:3*iteration]}
			o, err := study(e, c)
			if err != nil {
				return fmt.Errorf("study-placement, %d pods by %s: %w", 3*iteration, by, err)
			}
			params := map[string]any{"scheduler": by, "pods": 3 * iteration, "policy": c.policy}
			e.Row(experiment.Row{Params: params, Metric: "throughput", Unit: "1/s", Measured: experiment.Rounded(o.Throughput)})
			e.Row(experiment.Row{Params: params, Metric: "mean", Unit: "ms", Measured: experiment.Rounded(o.Mean)})
		}
	}
	return nil
}

// alike is the share of pods that two orders have on the same nodes, a mean over the
// iterations of three more.
func alike(a, b []string) (sum float64) {
	n := 0
	for k := 3; k <= min(len(a), len(b)); k += 3 {
		on := map[string]int{}
		for i := range k {
			on[a[i]]++
		}
		same := 0
		for _, node := range b[:k] {
			if on[node] > 0 {
				on[node]--
				same++
			}
		}
		sum += float64(same) / float64(k)
		n++
	}
	return sum / float64(max(1, n))
}
