package study

import (
	"context"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
)

// LB is the experiment study-lb.
var LB = experiment.Experiment{
	Name: "study-lb", Source: "continuum study fig. 4, 5",
	Shows:   "throughput and times by routing policy over 16 iterations of three pods more, for both placements (in virtual time, with the paper's profile of its nodes; one gateway at the edge, images in the requests)",
	Virtual: runStudyLB,
	Plot:    &experiment.Plot{X: "pods", Series: "policy", Metric: "throughput", Title: "requests a second (both placements)"},
}

// worstTail is the 99th percentile of fastest over that of the winner in one of the 32 cells, 30 pods by
// throughput, and a little; in the others it is at most 1.04, and 0.4 to 0.9 in half of them.
const worstTail = 1.2

func runStudyLB(ctx context.Context, e *experiment.Env) error {
	policies := append([]string{api.PolicyFastest, api.PolicyLeastResponse}, studyPolicies...)
	for _, placement := range studyPlacements {
		sums, iterations := map[string]float64{}, studyIterations(e)
		for _, iteration := range iterations {
			by := map[string]experiment.Outcome{}
			var c studyCase
			for _, policy := range policies {
				if err := ctx.Err(); err != nil {
					return err
				}
				c = studyCase{policy: policy, placement: placement, iteration: iteration, gateway: "edge"}
				o, err := study(e, c)
				if err != nil {
					return err
				}
				by[policy] = o
				sums[policy] += o.Throughput
				e.Row(experiment.Row{Params: c.params(), Metric: "throughput", Unit: "1/s", Measured: experiment.Rounded(o.Throughput)})
				e.Times(c.params(), o)
			}
			e.OverWinner(c.params(), by, studyPolicies, worstTail)
		}
		for _, policy := range studyPolicies[:len(studyPolicies)-1] {
			e.Ratio(map[string]any{"placement": placement, "policy": api.PolicyLeastConnections, "than": policy}, "throughput_over", sums[api.PolicyLeastConnections], sums[policy], -1)
		}
		r := e.Ratio(map[string]any{"placement": placement, "policy": api.PolicyFastest, "than": api.PolicyLeastConnections}, "throughput_over", sums[api.PolicyFastest], sums[api.PolicyLeastConnections], -experiment.Quickly(e.Quick, 0.95, 0.99))
		if r.Short == "" {
			r.Note = "a percent is left to chance, in a quick run five"
		}
	}
	return nil
}
