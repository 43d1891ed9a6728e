package promises

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim/placement"
)

// PlaceQuality is the experiment place-quality.
var PlaceQuality = experiment.Experiment{
	Name: "place-quality", Source: "no paper: every scheduler on real infrastructures",
	Shows: "what is placed, agreements on distance that do not hold, how long requests would take, fairness and fragments, by every scheduler and by the default of Kubernetes, " +
		"on k8s-continuum-50, openb and PlanetLab; flat, and in clusters below a root (in virtual time)",
	Virtual: runPlaceQuality,
	Plot: &experiment.Plot{X: "scheduler", Series: "scene", Metric: "placed_cpu", Title: "cores of the instances that were placed, % of those asked for", More: []experiment.Plot{
		{X: "scheduler", Series: "scene", Metric: "violated", Title: "agreements on distance that do not hold, %"},
		{X: "scheduler", Series: "scene", Metric: "expected", Title: "time of a request, ms"},
		{X: "scheduler", Series: "scene", Metric: "unfair_cpu", Title: "unfairness, cores for each service (Mu, eq. 7)"},
		{X: "scheduler", Series: "scene", Metric: "fragments_cpu", Title: "cores that are free and of no use to an instance drawn at random, % of all"},
	}},
}

// placeScene is a scenario, and whether it is to be run in its clusters too.
type placeScene struct {
	name  string
	make  func(seed uint64) (*placement.Scenario, error)
	tiers bool
	// only these schedulers; nil: all.
	only []string
	// single: each service has one instance, so that none is to be spread.
	single bool
}

func placeScenes(quick bool) []placeScene {
	openB := func(times float64) func(uint64) (*placement.Scenario, error) {
		return func(seed uint64) (*placement.Scenario, error) { return placement.OpenB(times, false, seed) }
	}
	withGPUs := func(seed uint64) (*placement.Scenario, error) { return placement.OpenB(1, true, seed) }
	planetLab := func(load float64) func(uint64) (*placement.Scenario, error) {
		return func(seed uint64) (*placement.Scenario, error) { return placement.PlanetLab(load, seed) }
	}
	scenes := []placeScene{
		{name: "continuum", make: placement.Continuum, tiers: true},
		{name: "planetlab", make: planetLab(0.5), tiers: true},
		{name: "openb", make: openB(1), single: true},
	}
	if quick {
		scenes[1].only, scenes[2].only = []string{"rom", placement.Baseline.Name, "ldp"}, []string{"rom", placement.Baseline.Name}
		scenes[1].tiers = false
	} else {
		scenes = append(scenes,
			placeScene{name: "openb-gpus", make: withGPUs, single: true, only: []string{placement.Baseline.Name, "spread", "rom"}},
			placeScene{name: "planetlab-scarce", make: planetLab(1.3), tiers: true},
			placeScene{name: "openb-scarce", make: openB(1.7), single: true})
	}
	return scenes
}

func runPlaceQuality(ctx context.Context, e *experiment.Env) error {
	for _, scene := range placeScenes(e.Quick) {
		s, err := scene.make(e.Seed)
		if err != nil {
			return fmt.Errorf("place-quality: %w", err)
		}
		by := map[string]placement.Quality{}
		for _, scheduler := range placement.Schedulers() {
			if scene.single && scheduler.Tight || scene.only != nil && !slices.Contains(scene.only, scheduler.Name) {
				continue
			}
			e.Say("%s by %s", scene.name, scheduler.Name)
			r, err := placement.Run(ctx, s, scheduler)
			if err != nil {
				return fmt.Errorf("place-quality: %w", err)
			}
			by[scheduler.Name] = placement.Measure(r)
			quality(e, map[string]any{"scene": scene.name, "scheduler": scheduler.Name, "form": "flat"}, r)
			if !scene.tiers || scheduler.Joint() {
				continue
			}
			if r, err = placement.RunTiered(ctx, s, scheduler); err != nil {
				return fmt.Errorf("place-quality: %w", err)
			}
			quality(e, map[string]any{"scene": scene.name + ", clusters", "scheduler": scheduler.Name, "form": "clusters"}, r)
		}
		switch scene.name {
		case "openb":
			overBaseline(e, scene.name, by)
		case "openb-gpus":
			overBaseline(e, scene.name, by)
		}
	}
	return nil
}

// quality adds the rows of a placement.
func quality(e *experiment.Env, params map[string]any, r *placement.Result) {
	q := placement.Measure(r)
	for _, m := range []struct {
		metric, unit string
		value        float64
	}{
		{"placed", "%", 100 * q.Placed},
		{"placed_cpu", "%", 100 * q.PlacedCPU},
		{"violated", "%", 100 * q.Violated},
		{"expected", "ms", q.Expected},
		{"unserved", "%", 100 * q.Unserved},
		{"unfair_cpu", "cores", q.Unfair[0]},
		{"unfair_memory", "GiB", q.Unfair[1]},
		{"unmet_cpu", "cores", q.Unmet[0]},
		{"unmet_memory", "GiB", q.Unmet[1]},
		{"fragments_cpu", "%", 100 * q.Fragments[0]},
		{"fragments_memory", "%", 100 * q.Fragments[1]},
		{"placed_gpu", "%", 100 * q.PlacedGPU},
		{"fragments_gpu", "%", 100 * q.FragmentsGPU},
		{"empty_workers", "%", 100 * q.Empty},
	} {
		if !math.IsNaN(m.value) {
			e.Row(experiment.Row{Params: params, Metric: m.metric, Unit: m.unit, Measured: experiment.Rounded(m.value)})
		}
	}
	e.Row(experiment.Row{Params: params, Metric: "decision", Unit: "us", Measured: experiment.Rounded(float64(r.PerDecision().Nanoseconds()) / 1e3), Note: "of the processor; differs from run to run"})
	if r.RootDecisions > 0 {
		e.Row(experiment.Row{Params: params, Metric: "root_decision", Unit: "us", Measured: experiment.Rounded(float64(r.RootTook.Nanoseconds()) / 1e3 / float64(r.RootDecisions)), Note: "of the processor; differs from run to run"})
		e.Row(experiment.Row{Params: params, Metric: "refused", Unit: "%", Measured: experiment.Rounded(100 * float64(r.Refused) / float64(max(1, r.Placed+r.Refused))), Note: "of what clusters were offered"})
	}
}

// overBaseline requires of rom, which is the default, what Kubernetes' default does:
// as many pods, and no more fragments of what is scarcest, which is the processors; with
// GPUs no more of anything.
func overBaseline(e *experiment.Env, scene string, by map[string]placement.Quality) {
	ours, theirs := by["rom"], by[placement.Baseline.Name]
	params := map[string]any{"scene": scene, "scheduler": "rom", "over": placement.Baseline.Name}
	e.Ratio(params, "placed_over", ours.Placed, theirs.Placed, -1)
	e.Ratio(params, "placed_cpu_over", ours.PlacedCPU, theirs.PlacedCPU, -1)
	e.Ratio(params, "fragments_cpu_over", ours.Fragments[0], theirs.Fragments[0], 1)
	if math.IsNaN(ours.FragmentsGPU) {
		return
	}
	e.Ratio(params, "fragments_memory_over", ours.Fragments[1], theirs.Fragments[1], 1)
	e.Ratio(params, "placed_gpu_over", ours.PlacedGPU, theirs.PlacedGPU, -1)
	e.Ratio(params, "fragments_gpu_over", ours.FragmentsGPU, theirs.FragmentsGPU, 1)
}
