package experiments

import (
	"context"
	"strconv"
)

var studyBandwidth = Experiment{
	Name: "study-bandwidth", Source: "continuum study fig. 8, 9",
	Shows:   "pods fetch images from the edge, with every node's bandwidth limited: it decides more than anything else (in virtual time; the paper does not print its limits)",
	virtual: func(ctx context.Context, e *env) error { return runStudyBandwidth(ctx, e, e.virtually()) },
	plot:    &plot{x: "pods", series: "mbps", metric: "throughput", title: "requests a second (both placements)"},
}

func runStudyBandwidth(ctx context.Context, e *env, f studyForm) error {
	limits := f.some("17", "10", "5", "1")
	sums, err := e.studySweep(ctx, f, "mbps", limits, func(c *studyCase, limit string) {
		c.source = "edge"
		rate, _ := strconv.ParseFloat(limit, 64) // it is one of the above
		c.limit = rate * mbps
	})
	if err != nil {
		return err
	}
	e.ordered(f, sums, "mbps", limits...)
	return nil
}
