package experiments

import "context"

var studyCallMethod = Experiment{
	Name: "study-callmethod", Source: "continuum study fig. 6, 7",
	Shows:   "images in the requests, or fetched by the pods from the edge: much the same (in virtual time)",
	virtual: runStudyCallMethod,
	plot:    &plot{x: "pods", series: "call", metric: "throughput", title: "requests a second (both placements)"},
}

func runStudyCallMethod(ctx context.Context, e *env) error {
	sums, err := e.studySweep(ctx, "call", []string{"value", "reference"}, func(c *studyCase, call string) {
		if call == "reference" {
			c.source = "edge"
		}
	})
	if err != nil {
		return err
	}
	for _, placement := range studyPlacements {
		params := map[string]any{"placement": placement, "call": "reference", "than": "value"}
		r := e.ratio(params, "throughput_over", sums[placement+" reference"], sums[placement+" value"], -0.8)
		if r.Measured > 1.25 {
			r.Short = "fetching is faster than sending by more than a quarter"
		}
	}
	return nil
}
