package study

import (
	"context"
	"strconv"

	"github.com/verge-edge/verge/internal/lab/experiment"
)

// Bandwidth is the experiment study-bandwidth.
var Bandwidth = experiment.Experiment{
	Name: "study-bandwidth", Source: "continuum study fig. 8, 9",
	Shows:   "pods fetch images from the edge, with every node's bandwidth limited: it decides more than anything else (in virtual time; the paper does not print its limits)",
	Virtual: func(ctx context.Context, e *experiment.Env) error { return runStudyBandwidth(ctx, e, virtually(e)) },
	Plot:    &experiment.Plot{X: "pods", Series: "mbps", Metric: "throughput", Title: "requests a second (both placements)"},
}

func runStudyBandwidth(ctx context.Context, e *experiment.Env, f studyForm) error {
	limits := f.some("17", "10", "5", "1")
	sums, err := studySweep(ctx, e, f, "mbps", limits, func(c *studyCase, limit string) {
		c.source = "edge"
		rate, _ := strconv.ParseFloat(limit, 64) // it is one of the above
		c.limit = rate * experiment.Mbps
	})
	if err != nil {
		return err
	}
	ordered(e, f, sums, "mbps", limits...)
	return nil
}
