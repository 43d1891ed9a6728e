package promises

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim/placement"
)

// PlaceRoot is the experiment place-root.
var PlaceRoot = experiment.Experiment{
	Name: "place-root", Source: "no paper: what the root decides on aggregates alone",
	Shows: "how often the root expects too much or too little of a cluster, on real infrastructures and drawn ones by how full they are; and a million workers in 1,000 clusters, of which a tenth leaves each minute " +
		"while services are deployed, with aggregates that are old, and some that are wrong (in virtual time)",
	Virtual: runPlaceRoot,
	Plot: &experiment.Plot{X: "full", Series: "scene", Metric: "false_accept", Title: "all was expected and not all fitted, % of the cases in which not all fits", More: []experiment.Plot{
		{X: "full", Series: "scene", Metric: "over", Title: "replicas expected too many, % of those wanted"},
	}},
}

func runPlaceRoot(ctx context.Context, e *experiment.Env) error {
	rng := rand.New(rand.NewPCG(e.Seed, 7))
	for _, scene := range []struct {
		name string
		make func() (*placement.Scenario, error)
	}{
		{"continuum", func() (*placement.Scenario, error) { return placement.Continuum(e.Seed) }},
		{"planetlab", func() (*placement.Scenario, error) { return placement.PlanetLab(1, e.Seed) }},
		{"openb, clusters of 50", func() (*placement.Scenario, error) {
			s, err := placement.OpenB(1, false, e.Seed)
			if err == nil {
				s.Regroup(50, rng)
			}
			return s, err
		}},
		{"random", func() (*placement.Scenario, error) {
			return placement.Random(experiment.Quickly(e.Quick, 2_000, 20_000), 1, e.Seed), nil
		}},
	} {
		s, err := scene.make()
		if err != nil {
			return fmt.Errorf("place-root: %w", err)
		}
		for _, full := range []float64{0, 30, 60, 80, 95} {
			x, err := placement.Estimates(ctx, s, full/100, experiment.Quickly(e.Quick, 10, 200), rng)
			if err != nil {
				return fmt.Errorf("place-root: %w", err)
			}
			estimates(e, map[string]any{"scene": scene.name, "full": full}, x)
		}
	}
	if e.Quick {
		return planet(ctx, e, "10^4 workers", placement.Planet{Clusters: 100, Workers: 100, Seconds: 120, Churn: 0.1, Away: 120, Deploy: 1, Report: 10, Seed: e.Seed})
	}
	big := placement.Planet{Clusters: 1000, Workers: 1000, Seconds: 600, Churn: 0.1, Away: 120, Deploy: 10, Report: 10, Seed: e.Seed}
	for _, c := range []struct {
		name string
		with func(*placement.Planet)
	}{
		{"10^6 workers", func(*placement.Planet) {}},
		{"10^6 workers, reports every minute", func(p *placement.Planet) { p.Report, p.Seconds = 60, 240 }},
		{"10^6 workers, 5 % of the clusters say that all is free", func(p *placement.Planet) { p.Liars, p.Seconds = 0.05, 240 }},
		{"5,000 workers, of which more is asked than there is", func(p *placement.Planet) { p.Clusters, p.Workers, p.Deploy, p.Seconds = 50, 100, 16, 180 }},
	} {
		p := big
		c.with(&p)
		if err := planet(ctx, e, c.name, p); err != nil {
			return err
		}
	}
	return nil
}

// estimates adds the rows of one scene.
func estimates(e *experiment.Env, params map[string]any, x placement.Errors) {
	params = experiment.With(params, "cases", x.Cases())
	share := func(metric string, n, of float64) *experiment.Row {
		return e.Row(experiment.Row{Params: params, Metric: metric, Unit: "%", Measured: experiment.Rounded(100 * n / max(1, of))})
	}
	share("false_accept", float64(x.FalseAccept), float64(x.FitsNot))
	share("false_refuse", float64(x.FalseRefuse), float64(x.Fits))
	share("offered_in_vain", float64(x.Vain), float64(x.Cases()))
	share("over", x.Over, x.Wanted)
	share("under", x.Under, x.Wanted)
	if r := share("starved", float64(x.Starved), float64(x.Cases())); r.Measured > 0 {
		r.Short = "no cluster with room for one may be passed over"
	}
}

// planet runs many clusters and adds its rows.
func planet(ctx context.Context, e *experiment.Env, name string, p placement.Planet) error {
	e.Say("%s", name)
	x, err := p.Run(ctx)
	if err != nil {
		return fmt.Errorf("place-root: %w", err)
	}
	params := map[string]any{"scene": name, "clusters": p.Clusters, "workers": p.Clusters * p.Workers, "seconds": p.Seconds}
	row := func(metric, unit string, v float64) *experiment.Row {
		return e.Row(experiment.Row{Params: params, Metric: metric, Unit: unit, Measured: experiment.Rounded(v)})
	}
	percent := func(n, of int) float64 { return 100 * float64(n) / float64(max(1, of)) }
	row("services", "1", float64(x.Services))
	row("left", "workers", float64(x.Left))
	row("placed", "%", percent(x.Placed, x.Instances))
	row("refused", "%", percent(x.Refused, x.Offered)).Note = "of the replicas that clusters were offered"
	row("replaced", "instances", float64(x.Replaced))
	row("escalated", "instances", float64(x.Escalated)).Note = "replaced ones for which their own cluster had no worker"
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		row("wait_"+q.name, "s", float64(experiment.Quantile(x.Wait, q.at)))
		row("ranked_"+q.name, "times", float64(experiment.Quantile(x.Ranked, q.at)))
		for _, d := range []struct {
			name string
			of   []time.Duration
		}{{"root_decision", x.Root}, {"cluster_decision", x.Cluster}, {"aggregate", x.Report}} {
			row(d.name+"_"+q.name, "us", float64(experiment.Quantile(d.of, q.at).Nanoseconds())/1e3).Note = "of the processor; differs from run to run"
		}
	}
	row("heap", "MiB", float64(x.Heap>>20)).Note = "most in use, the imagined workers included; differs from run to run"
	return nil
}
