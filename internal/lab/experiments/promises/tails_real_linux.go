package promises

import (
	"context"
	"errors"
	"fmt"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
)

// RouteTailsReal is an experiment.
var RouteTailsReal = experiment.Experiment{
	Name: RouteTails.Name, Source: RouteTails.Source, Emulated: true,
	Shows: "few requests that take a hundred times as long, and a service that does not say how many an instance takes: " +
		"whether the times of fastest grow, next to least-connections (a root, a cluster and four workers, each a gateway; " +
		"real requests, instances with imagined processors; expected is the same in virtual time)",
	Lab: runRouteTailsReal,
}

func runRouteTailsReal(ctx context.Context, e *experiment.Env) (err error) {
	site, err := bed.NewGateways(ctx, e, tailsWorkers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.Down()) }()
	s := tailsScene(site.Workers, e.Quick, e.Seed)
	policies := []string{api.PolicyFastest, api.PolicyLeastConnections}
	by, acc, err := site.Play(ctx, s, policies)
	if err != nil {
		return fmt.Errorf("%s: %w", tailsName, err)
	}
	params := map[string]any{"scene": tailsName}
	for _, policy := range policies {
		a := by[policy]
		p := experiment.With(params, "policy", policy)
		both(e, p, "mean", "ms", 1e3*meanTook(a.Real), 1e3*meanTook(a.Virtual))
		both(e, p, "p99", "ms", 1e3*p99Took(a.Real), 1e3*p99Took(a.Virtual))
	}
	ours, theirs := by[api.PolicyFastest], by[api.PolicyLeastConnections]
	virtual := growthOf(ours.Virtual, theirs.Virtual, s.Warm, s.Span)
	growthOf(ours.Real, theirs.Real, s.Warm, s.Span).rows(e, virtual, params, api.PolicyFastest, api.PolicyLeastConnections)
	e.Measured(0, acc)
	return nil
}
