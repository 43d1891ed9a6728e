package experiments

import "context"

var studyDataSource = Experiment{
	Name: "study-datasource", Source: "continuum study fig. 6",
	Shows:   "pods fetch images from the edge, the fog or the cloud: the further away most pods are from them, the less is answered (in virtual time)",
	virtual: func(ctx context.Context, e *env) error { return runStudyDataSource(ctx, e, e.virtually()) },
	plot:    &plot{x: "pods", series: "source", metric: "throughput", title: "requests a second (both placements)"},
}

func runStudyDataSource(ctx context.Context, e *env, f studyForm) error {
	sums, err := e.studySweep(ctx, f, "source", f.some("edge", "fog", "cloud"), func(c *studyCase, source string) { c.source = source })
	if err != nil {
		return err
	}
	if !f.few {
		e.ordered(f, sums, "source", "fog", "cloud")
	}
	e.ordered(f, sums, "source", "edge", "cloud")
	return nil
}
