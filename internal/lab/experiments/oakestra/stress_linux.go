package oakestra

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
)

// Stress is the experiment oakestra-stress.
var Stress = experiment.Experiment{
	Name: "oakestra-stress", Source: "Oakestra fig. 6", Emulated: true,
	Shows: "processor time and memory of worker (agent and engine, without its instances), cluster and root with a hundred instances on each worker: to deploy them, and afterwards; and how long deploying takes",
	Lab:   runStress,
	Plot:  &experiment.Plot{X: "workers", Series: "tier", Metric: "memory", Title: "memory with 100 instances on each worker, MB"},
}

func runStress(ctx context.Context, e *experiment.Env) error {
	sizes, each, window := []int{2, 6, 10}, 100, time.Minute
	if e.Quick {
		sizes, each, window = []int{1}, 20, 3*time.Second
	}
	for _, n := range sizes {
		if err := stress(ctx, e, n, each, window); err != nil {
			return fmt.Errorf("with %d workers: %w", n, err)
		}
	}
	return nil
}

// stress deploys so many instances on each worker, and looks at what that takes.
func stress(ctx context.Context, e *experiment.Env, workers, each int, window time.Duration) (err error) {
	s, err := bed.NewSite(ctx, e, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Down()) }()
	tiers := map[string][]string{tierRoot: {"root"}, tierCluster: {"edge"}, tierWorker: s.Workers}
	before := map[string]bed.Use{}
	for _, hosts := range tiers {
		for _, h := range hosts {
			if before[h], err = s.Used(h); err != nil {
				return err
			}
		}
	}
	const timeout = 5 * time.Minute
	took, done, err := s.DeployAs(ctx, workers*each, "resources: {cpu: 1m, memory: 1Mi, disk: 1Mi}", timeout)
	if err != nil {
		return err
	}
	if !done {
		return fmt.Errorf("not all of %d instances run after %v", workers*each, timeout)
	}
	p := map[string]any{"workers": workers, "instances": workers * each}
	from := len(e.Rows)
	e.Row(experiment.Row{Params: p, Metric: "deploy_time", Unit: "ms", Measured: lab.Milliseconds(took)})
	cpu := map[string]float64{}
	for tier, hosts := range tiers {
		for _, h := range hosts {
			u, err := s.Used(h)
			if err != nil {
				return err
			}
			cpu[tier] += lab.Milliseconds(u.Cpu-before[h].Cpu) / float64(workers*each)
		}
	}
	deployCPURows(e, p, cpu)
	if !e.Quick {
		if err := experiment.Pause(ctx, 20*time.Second); err != nil { // after what it takes to start
			return err
		}
	}
	if err := load(ctx, e, s, window, map[string]any{"instances": workers * each}, stressMost); err != nil {
		return err
	}
	last := e.Rows[len(e.Rows)-1]
	for i := range e.Rows[from:] { // one emulator for all
		e.Rows[from+i].ErrorP50, e.Rows[from+i].ErrorP99 = last.ErrorP50, last.ErrorP99
	}
	return nil
}
