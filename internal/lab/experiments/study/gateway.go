package study

import (
	"context"
	"strings"

	"github.com/verge-edge/verge/internal/lab/experiment"
)

// Gateway is the experiment study-gateway.
var Gateway = experiment.Experiment{
	Name: "study-gateway", Source: "continuum study fig. 10, 11",
	Shows:   "the gateway at the edge, where the clients are, in the fog or in the cloud, for images in the requests and for images fetched from the edge (in virtual time)",
	Virtual: func(ctx context.Context, e *experiment.Env) error { return runStudyGateway(ctx, e, virtually(e)) },
	Plot:    &experiment.Plot{X: "pods", Series: "gateway", Metric: "throughput", Title: "requests a second (both placements)"},
}

func runStudyGateway(ctx context.Context, e *experiment.Env, f studyForm) error {
	tiers := f.some("edge", "fog", "cloud")
	var values []string
	for _, call := range []string{"value", "reference"} {
		for _, tier := range tiers {
			values = append(values, tier+" by "+call)
		}
	}
	sums, err := studySweep(ctx, e, f, "gateway", values, func(c *studyCase, value string) {
		tier, call, _ := strings.Cut(value, " by ")
		c.gateway = tier
		if call == "reference" {
			c.source = "edge"
		}
	})
	if err != nil {
		return err
	}
	ordered(e, f, sums, "gateway", values[:len(tiers)]...)
	ordered(e, f, sums, "gateway", values[len(tiers):]...)
	// Images that pass the gateway make its place count for more.
	for _, placement := range f.placements {
		left := func(call string) float64 {
			return sums[placement+" cloud by "+call].measured / sums[placement+" edge by "+call].measured
		}
		e.Ratio(map[string]any{"placement": placement, "gateway": "cloud", "than": "edge", "call": "reference over value"}, "what_is_left_over", left("reference"), left("value"), -f.least)
	}
	return nil
}
