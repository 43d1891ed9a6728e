package experiments

import (
	"context"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/sim"
)

var studyLBReal = Experiment{
	Name: studyLB.Name, Source: studyLB.Source, Emulated: true,
	Shows: "throughput and times by routing policy for the third and the last iteration of both placements (real requests, synthetic pods with the paper's profile of its nodes, all of it ten times faster and images ten times smaller; a line of its own from the edge to each node of fog and cloud)",
	run:   runStudyLBReal, plot: studyLB.plot,
}

// studyFast is how many times faster than in the paper everything goes, where the
// slowest pods take ten seconds for a request. Images are as many times smaller, so that
// the lines can be as they are.
const studyFast = 10

const studyGatewayHost = "edge"

func runStudyLBReal(ctx context.Context, e *env) error {
	hosts := []string{studyGatewayHost}
	for node := range studyNodes {
		hosts = append(hosts, node)
	}
	slices.Sort(hosts)
	theirs := quickly(e.Quick, []string{api.PolicyRoundRobin, api.PolicyLeastConnections}, studyPolicies)
	policies := append([]string{api.PolicyFastest}, theirs...)
	if !e.Quick {
		policies = append(policies, api.PolicyLeastResponse)
	}
	return e.played(ctx, hosts, func(f *fleet) error {
		for _, placement := range quickly(e.Quick, studyPlacements[1:], studyPlacements) {
			sums := map[string]float64{}
			var worst lab.Accuracy
			from := len(e.rows)
			for _, iteration := range quickly(e.Quick, []int{3}, []int{3, 16}) {
				c := studyCase{placement: placement, iteration: iteration, gateway: studyGatewayHost}
				s := c.scene(hosts)
				s.warm, s.span, s.seed = quickly(e.Quick, 400*time.Millisecond, 3*time.Second), quickly(e.Quick, 2*time.Second, 12*time.Second), e.Seed
				by := map[string]outcome{}
				for _, policy := range policies { // one after the other: they would share the lines
					real, virtual, acc, err := f.together(ctx, s, []string{policy})
					if err != nil {
						return err
					}
					o, v := real[policy].faster(1./studyFast), virtual[policy].faster(1./studyFast)
					by[policy] = o
					sums[policy] += o.throughput
					c.policy = policy
					e.row(Row{Params: c.params(), Metric: "throughput", Unit: "1/s", Expected: known(rounded(v.throughput)), Measured: rounded(o.throughput)})
					e.beside(c.params(), o, v)
					worst.ErrorP50, worst.ErrorP99, worst.Pings = max(worst.ErrorP50, acc.ErrorP50), max(worst.ErrorP99, acc.ErrorP99), worst.Pings+acc.Pings
				}
				e.overWinner(c.params(), by, theirs)
			}
			for _, policy := range theirs[:len(theirs)-1] {
				e.ratio(map[string]any{"placement": placement, "policy": api.PolicyLeastConnections, "than": policy}, "throughput_over", sums[api.PolicyLeastConnections], sums[policy], -1)
			}
			e.ratio(map[string]any{"placement": placement, "policy": api.PolicyFastest, "than": api.PolicyLeastConnections}, "throughput_over", sums[api.PolicyFastest], sums[api.PolicyLeastConnections], -0.99)
			e.measured(from, worst)
		}
		return nil
	})
}

// scene of a case, without its policy and its times.
func (c studyCase) scene(hosts []string) scene {
	order := studyOrder[c.placement][:3*c.iteration]
	s := scene{
		hosts: hosts, slots: 1, law: sim.Lognormal(studyWork), body: studyImage / studyFast, answer: studyAnswer / studyFast, power: studyNodes,
		rtt: func(a, b string) time.Duration { return studyRTT(studyTier(a), studyTier(b)) / studyFast },
		rate: func(a, b string) api.Bitrate {
			switch in, out := studyTier(a) == "edge", studyTier(b) == "edge"; {
			case in && !out:
				return studyUp * 8
			case out && !in:
				return studyDown * 8
			}
			return 0
		},
		loads: []sceneLoad{{host: studyGatewayHost, clients: len(order)}},
	}
	for _, node := range order {
		s.pods = append(s.pods, scenePod{node, studyService(node) / studyFast})
	}
	return s
}
