package proxymity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
)

// Overhead is the experiment proxymity-overhead.
var Overhead = experiment.Experiment{
	Name: "proxymity-overhead", Source: "Proxy-mity fig. 8", Emulated: true,
	Shows: "processor time and memory that distances add to a worker: a service with a replica on each of twelve workers, by round robin and then by proximity, no requests",
	Lab:   runOverhead,
}

func runOverhead(ctx context.Context, e *experiment.Env) (err error) {
	count, settle, window := 12, 20*time.Second, time.Minute
	if e.Quick {
		count, settle, window = 3, time.Second, 2*time.Second
	}
	var workers []string
	for i := range count {
		workers = append(workers, fmt.Sprint("w", i+1))
	}
	n, err := bed.NewNetwork(ctx, e, 10*time.Millisecond, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Down()) }()
	before, err := n.Stats()
	if err != nil {
		return err
	}
	first := len(e.Rows)
	var cpu, memory []float64
	for _, x := range []struct{ distances, policy string }{{"off", "round-robin"}, {"on", "proximity"}} {
		if err := n.Apply(ctx, bed.Asleep("web", count, "", bed.Listens, "policy: "+x.policy, "anti_affinity: {service: [web]}")); err != nil {
			return err
		}
		if err := experiment.Pause(ctx, settle); err != nil {
			return err
		}
		ms, mb, err := idleUse(ctx, n, window)
		if err != nil {
			return err
		}
		p := map[string]any{"distances": x.distances, "workers": count}
		e.Row(experiment.Row{Params: p, Metric: "cpu", Unit: "ms/min", Measured: ms})
		e.Row(experiment.Row{Params: p, Metric: "memory", Unit: "MB PSS", Measured: mb})
		cpu, memory = append(cpu, ms), append(memory, mb)
	}
	p := map[string]any{"workers": count}
	e.Row(experiment.Row{Params: p, Metric: "cpu_added", Unit: "% of a core", Paper: experiment.Known(3), Measured: (cpu[1] - cpu[0]) / 600})
	e.Row(experiment.Row{Params: p, Metric: "memory_added", Unit: "MB PSS", Paper: experiment.Known(3), Measured: memory[1] - memory[0]})
	after, err := n.Stats()
	if err != nil {
		return err
	}
	late := after.Late.Since(before.Late)
	e.Measured(first, lab.Accuracy{LateP50: late.Percentile(0.5), LateP99: late.Percentile(0.99), Packets: late.Count, RealTime: after.RealTime})
	return nil
}

// idleUse is what a worker uses on average: ms of processor in a minute, and MB.
func idleUse(ctx context.Context, n bed.Network, window time.Duration) (ms, mb float64, err error) {
	var before, after time.Duration
	for _, w := range n.Workers {
		u, err := n.Used(w)
		if err != nil {
			return 0, 0, err
		}
		before += u.Cpu
	}
	begin := time.Now()
	if err := experiment.Pause(ctx, window); err != nil {
		return 0, 0, err
	}
	took := time.Since(begin)
	for _, w := range n.Workers {
		u, err := n.Used(w)
		if err != nil {
			return 0, 0, err
		}
		after += u.Cpu
		mb += u.Pss
	}
	count := float64(len(n.Workers))
	return lab.Milliseconds(after-before) * float64(time.Minute) / float64(took) / count, mb / count, nil
}
