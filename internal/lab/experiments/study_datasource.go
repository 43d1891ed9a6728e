package experiments

import "context"

var studyDataSource = Experiment{
	Name: "study-datasource", Source: "continuum study fig. 6",
	Shows:   "pods fetch images from the edge, the fog or the cloud: the further away most pods are from them, the less is answered (in virtual time)",
	virtual: runStudyDataSource,
	plot:    &plot{x: "pods", series: "source", metric: "throughput", title: "requests a second (both placements)"},
}

func runStudyDataSource(ctx context.Context, e *env) error {
	sums, err := e.studySweep(ctx, "source", []string{"edge", "fog", "cloud"}, func(c *studyCase, source string) { c.source = source })
	if err != nil {
		return err
	}
	e.ordered(sums, "source", "fog", "cloud")
	e.ordered(sums, "source", "edge", "cloud")
	return nil
}
