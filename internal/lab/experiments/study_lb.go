package experiments

import (
	"context"

	"github.com/verge-edge/verge/api"
)

var studyLB = Experiment{
	Name: "study-lb", Source: "continuum study fig. 4, 5",
	Shows:   "throughput and times by routing policy over 16 iterations of three pods more, for both placements (in virtual time, with the paper's profile of its nodes; one gateway at the edge, images in the requests)",
	virtual: runStudyLB,
	plot:    &plot{x: "pods", series: "policy", metric: "throughput", title: "requests a second (both placements)"},
}

func runStudyLB(ctx context.Context, e *env) error {
	policies := append([]string{api.PolicyFastest, api.PolicyLeastResponse}, studyPolicies...)
	for _, placement := range studyPlacements {
		sums, iterations := map[string]float64{}, e.studyIterations()
		for _, iteration := range iterations {
			by := map[string]outcome{}
			var c studyCase
			for _, policy := range policies {
				if err := ctx.Err(); err != nil {
					return err
				}
				c = studyCase{policy: policy, placement: placement, iteration: iteration, gateway: "edge"}
				o, err := e.study(c)
				if err != nil {
					return err
				}
				by[policy] = o
				sums[policy] += o.throughput
				e.row(Row{Params: c.params(), Metric: "throughput", Unit: "1/s", Measured: rounded(o.throughput)})
				e.times(c.params(), o)
			}
			e.overWinner(c.params(), by, studyPolicies)
		}
		for _, policy := range studyPolicies[:len(studyPolicies)-1] {
			e.ratio(map[string]any{"placement": placement, "policy": api.PolicyLeastConnections, "than": policy}, "throughput_over", sums[api.PolicyLeastConnections], sums[policy], -1)
		}
		r := e.ratio(map[string]any{"placement": placement, "policy": api.PolicyFastest, "than": api.PolicyLeastConnections}, "throughput_over", sums[api.PolicyFastest], sums[api.PolicyLeastConnections], -quickly(e.Quick, 0.95, 0.99))
		if r.Short == "" {
			r.Note = "a percent is left to chance, in a quick run five"
		}
	}
	return nil
}
