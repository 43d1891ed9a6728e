package study

import (
	"context"

	"github.com/verge-edge/verge/internal/lab/experiment"
)

// DataSource is the experiment study-datasource.
var DataSource = experiment.Experiment{
	Name: "study-datasource", Source: "continuum study fig. 6",
	Shows:   "pods fetch images from the edge, the fog or the cloud: the further away most pods are from them, the less is answered (in virtual time)",
	Virtual: func(ctx context.Context, e *experiment.Env) error { return runStudyDataSource(ctx, e, virtually(e)) },
	Plot:    &experiment.Plot{X: "pods", Series: "source", Metric: "throughput", Title: "requests a second (both placements)"},
}

func runStudyDataSource(ctx context.Context, e *experiment.Env, f studyForm) error {
	sums, err := studySweep(ctx, e, f, "source", f.some("edge", "fog", "cloud"), func(c *studyCase, source string) { c.source = source })
	if err != nil {
		return err
	}
	if !f.few {
		ordered(e, f, sums, "source", "fog", "cloud")
	}
	ordered(e, f, sums, "source", "edge", "cloud")
	return nil
}
