package experiments

import "context"

var studyCallMethod = Experiment{
	Name: "study-callmethod", Source: "continuum study fig. 6, 7",
	Shows:   "images in the requests, or fetched by the pods from the edge: much the same; and one image for all requests, which workers keep (in virtual time)",
	virtual: func(ctx context.Context, e *env) error { return runStudyCallMethod(ctx, e, e.virtually()) },
	plot:    &plot{x: "pods", series: "call", metric: "throughput", title: "requests a second (both placements)"},
}

func runStudyCallMethod(ctx context.Context, e *env, f studyForm) error {
	sums, err := e.studySweep(ctx, f, "call", []string{"value", "reference", "kept"}, func(c *studyCase, call string) {
		if call != "value" {
			c.source, c.kept = "edge", call == "kept"
		}
	})
	if err != nil {
		return err
	}
	for _, placement := range f.placements {
		params := map[string]any{"placement": placement, "call": "reference", "than": "value"}
		r := e.over(sums, params, placement+" reference", placement+" value", 0.8)
		if r.Measured > 1.25 {
			r.Short = "fetching is faster than sending by more than a quarter"
		}
		e.over(sums, map[string]any{"placement": placement, "call": "kept", "than": "reference"}, placement+" kept", placement+" reference", f.least)
	}
	return nil
}
