package experiments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/lab"
)

var proxymityOverhead = Experiment{
	Name: "proxymity-overhead", Source: "Proxy-mity fig. 8", Emulated: true,
	Shows: "processor time and memory that distances add to a worker: a service with a replica on each of twelve workers, by round robin and then by proximity, no requests",
	run:   runOverhead,
}

func runOverhead(ctx context.Context, e *env) (err error) {
	count, settle, window := 12, 20*time.Second, time.Minute
	if e.Quick {
		count, settle, window = 3, time.Second, 2*time.Second
	}
	var workers []string
	for i := range count {
		workers = append(workers, fmt.Sprint("w", i+1))
	}
	n, err := e.newNetwork(ctx, 10*time.Millisecond, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Down()) }()
	before, err := n.Stats()
	if err != nil {
		return err
	}
	first := len(e.rows)
	var cpu, memory []float64
	for _, x := range []struct{ distances, policy string }{{"off", "round-robin"}, {"on", "proximity"}} {
		if err := n.apply(ctx, asleep("web", count, "", listens, "policy: "+x.policy, "anti_affinity: {service: [web]}")); err != nil {
			return err
		}
		if err := pause(ctx, settle); err != nil {
			return err
		}
		ms, mb, err := n.idleUse(ctx, window)
		if err != nil {
			return err
		}
		p := map[string]any{"distances": x.distances, "workers": count}
		e.row(Row{Params: p, Metric: "cpu", Unit: "ms/min", Measured: ms})
		e.row(Row{Params: p, Metric: "memory", Unit: "MB PSS", Measured: mb})
		cpu, memory = append(cpu, ms), append(memory, mb)
	}
	p := map[string]any{"workers": count}
	e.row(Row{Params: p, Metric: "cpu_added", Unit: "% of a core", Paper: known(3), Measured: (cpu[1] - cpu[0]) / 600})
	e.row(Row{Params: p, Metric: "memory_added", Unit: "MB PSS", Paper: known(3), Measured: memory[1] - memory[0]})
	after, err := n.Stats()
	if err != nil {
		return err
	}
	late := after.Late.Since(before.Late)
	e.measured(first, lab.Accuracy{LateP50: late.Percentile(0.5), LateP99: late.Percentile(0.99), Packets: late.Count, RealTime: after.RealTime})
	return nil
}

// idleUse is what a worker uses on average: ms of processor in a minute, and MB.
func (n network) idleUse(ctx context.Context, window time.Duration) (ms, mb float64, err error) {
	var before, after time.Duration
	for _, w := range n.workers {
		u, err := n.used(w)
		if err != nil {
			return 0, 0, err
		}
		before += u.cpu
	}
	begin := time.Now()
	if err := pause(ctx, window); err != nil {
		return 0, 0, err
	}
	took := time.Since(begin)
	for _, w := range n.workers {
		u, err := n.used(w)
		if err != nil {
			return 0, 0, err
		}
		after += u.cpu
		mb += u.pss
	}
	count := float64(len(n.workers))
	return lab.Milliseconds(after-before) * float64(time.Minute) / float64(took) / count, mb / count, nil
}
