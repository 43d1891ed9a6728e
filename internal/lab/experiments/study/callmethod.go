package study

import (
	"context"

	"github.com/verge-edge/verge/internal/lab/experiment"
)

// CallMethod is the experiment study-callmethod.
var CallMethod = experiment.Experiment{
	Name: "study-callmethod", Source: "continuum study fig. 6, 7",
	Shows:   "images in the requests, or fetched by the pods from the edge: much the same; and one image for all requests, which workers keep (in virtual time)",
	Virtual: func(ctx context.Context, e *experiment.Env) error { return runStudyCallMethod(ctx, e, virtually(e)) },
	Plot:    &experiment.Plot{X: "pods", Series: "call", Metric: "throughput", Title: "requests a second (both placements)"},
}

func runStudyCallMethod(ctx context.Context, e *experiment.Env, f studyForm) error {
	sums, err := studySweep(ctx, e, f, "call", []string{"value", "reference", "kept"}, func(c *studyCase, call string) {
		if call != "value" {
			c.source, c.kept = "edge", call == "kept"
		}
	})
	if err != nil {
		return err
	}
	for _, placement := range f.placements {
		params := map[string]any{"placement": placement, "call": "reference", "than": "value"}
		r := over(e, sums, params, placement+" reference", placement+" value", 0.8)
		if r.Measured > 1.25 {
			r.Short = "fetching is faster than sending by more than a quarter"
		}
		over(e, sums, map[string]any{"placement": placement, "call": "kept", "than": "reference"}, placement+" kept", placement+" reference", f.least)
	}
	return nil
}
