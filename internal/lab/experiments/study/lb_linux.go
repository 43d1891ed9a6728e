package study

import (
	"context"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
	"github.com/verge-edge/verge/internal/sim"
)

// LBReal is an experiment.
var LBReal = experiment.Experiment{
	Name: LB.Name, Source: LB.Source, Emulated: true,
	Shows: "throughput and times by routing policy for the third and the last iteration of both placements (real requests, synthetic pods with the paper's profile of its nodes, all of it ten times faster and images ten times smaller; a line of its own from the edge to each node of fog and cloud)",
	Lab:   runStudyLBReal, Plot: LB.Plot,
}

// studyFast is how many times faster than in the paper everything goes, where the
// slowest pods take ten seconds for a request. Images are as many times smaller, so that
// the lines can be as they are.
const studyFast = 10

const studyGatewayHost = "edge"

func runStudyLBReal(ctx context.Context, e *experiment.Env) error {
	hosts := []string{studyGatewayHost}
	for node := range studyNodes {
		hosts = append(hosts, node)
	}
	slices.Sort(hosts)
	theirs := experiment.Quickly(e.Quick, []string{api.PolicyRoundRobin, api.PolicyLeastConnections}, studyPolicies)
	policies := append([]string{api.PolicyFastest}, theirs...)
	if !e.Quick {
		policies = append(policies, api.PolicyLeastResponse)
	}
	return bed.Played(ctx, e, hosts, func(f *bed.Fleet) error {
		for _, placement := range experiment.Quickly(e.Quick, studyPlacements[1:], studyPlacements) {
			sums := map[string]float64{}
			var worst lab.Accuracy
			from := len(e.Rows)
			for _, iteration := range experiment.Quickly(e.Quick, []int{3}, []int{3, 16}) {
				c := studyCase{placement: placement, iteration: iteration, gateway: studyGatewayHost}
				s := c.scene(hosts)
				s.Warm, s.Span, s.Seed = experiment.Quickly(e.Quick, 400*time.Millisecond, 3*time.Second), experiment.Quickly(e.Quick, 2*time.Second, 12*time.Second), e.Seed
				by := map[string]experiment.Outcome{}
				for _, policy := range policies { // one after the other: they would share the lines
					real, virtual, acc, err := f.Together(ctx, s, []string{policy})
					if err != nil {
						return err
					}
					o, v := real[policy].Faster(1./studyFast), virtual[policy].Faster(1./studyFast)
					by[policy] = o
					sums[policy] += o.Throughput
					c.policy = policy
					e.Row(experiment.Row{Params: c.params(), Metric: "throughput", Unit: "1/s", Expected: experiment.Known(experiment.Rounded(v.Throughput)), Measured: experiment.Rounded(o.Throughput)})
					bed.Beside(e, c.params(), o, v)
					worst.ErrorP50, worst.ErrorP99, worst.Pings = max(worst.ErrorP50, acc.ErrorP50), max(worst.ErrorP99, acc.ErrorP99), worst.Pings+acc.Pings
				}
				e.OverWinner(c.params(), by, theirs, 0)
			}
			for _, policy := range theirs[:len(theirs)-1] {
				e.Ratio(map[string]any{"placement": placement, "policy": api.PolicyLeastConnections, "than": policy}, "throughput_over", sums[api.PolicyLeastConnections], sums[policy], -1)
			}
			e.Ratio(map[string]any{"placement": placement, "policy": api.PolicyFastest, "than": api.PolicyLeastConnections}, "throughput_over", sums[api.PolicyFastest], sums[api.PolicyLeastConnections], -0.99)
			e.Measured(from, worst)
		}
		return nil
	})
}

// scene of a case, without its policy and its times.
func (c studyCase) scene(hosts []string) bed.Scene {
	order := studyOrder[c.placement][:3*c.iteration]
	s := bed.Scene{
		Hosts: hosts, Slots: 1, Law: sim.Lognormal(studyWork), Body: studyImage / studyFast, Answer: studyAnswer / studyFast, Power: studyNodes,
		Rtt: func(a, b string) time.Duration { return studyRTT(studyTier(a), studyTier(b)) / studyFast },
		Rate: func(a, b string) api.Bitrate {
			switch in, out := studyTier(a) == "edge", studyTier(b) == "edge"; {
			case in && !out:
				return studyUp * 8
			case out && !in:
				return studyDown * 8
			}
			return 0
		},
		Loads: []bed.SceneLoad{{Host: studyGatewayHost, Clients: len(order)}},
	}
	for _, node := range order {
		s.Pods = append(s.Pods, bed.ScenePod{Host: node, Service: studyService(node) / studyFast})
	}
	return s
}
