package proxymity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/emul"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
)

// Overhead is the experiment proxymity-overhead.
var Overhead = experiment.Experiment{
	Name: "proxymity-overhead", Source: "Proxy-mity fig. 8", Emulated: true,
	Shows: "processor time, memory and packets that distances add to a worker: a service with a replica on each of twelve " +
		"workers, by round robin and then by proximity, no requests; packets are counted on the workers' links",
	Lab: runOverhead,
}

// idleCost is what a worker takes on average while nothing is asked of it.
type idleCost struct {
	cpu     float64 // ms of processor time in a minute
	memory  float64 // MB (PSS)
	private float64 // MB that it shares with no other process
	// What it sends in a minute: to other workers (probes and their answers, handshakes of
	// the tunnels), and to its cluster and back.
	among, control traffic
}

// traffic in a minute.
type traffic struct{ packets, bytes float64 }

func runOverhead(ctx context.Context, e *experiment.Env) (err error) {
	// For two minutes after the start workers say more to each other and compute more, with and
	// without distances.
	count, warm, settle, window := 12, 2*time.Minute, 20*time.Second, time.Minute
	if e.Quick {
		count, warm, settle, window = 3, 0, time.Second, 2*time.Second
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
	var costs []idleCost
	for _, policy := range []string{"round-robin", "proximity"} {
		web := bed.Asleep("web", count, "", bed.Listens, "policy: "+policy, "anti_affinity: {service: [web]}")
		if err := n.Apply(ctx, web); err != nil {
			return err
		}
		if err := experiment.Pause(ctx, settle+warm); err != nil {
			return err
		}
		warm = 0
		c, err := costOf(ctx, n, window)
		if err != nil {
			return err
		}
		costs = append(costs, c)
	}
	overheadRows(e, count, costs[0], costs[1])
	after, err := n.Stats()
	if err != nil {
		return err
	}
	e.Measured(first, lab.Lateness(before, after))
	return nil
}

// What distances may add to a worker: a tenth of the processor time that the paper's agent adds,
// and as much memory, of which what is private counts: PSS depends on how many other processes
// run the same program. A worker measures at most one other a second (package distance), by up to
// five questions (package probe), each of which has an answer.
const (
	mostAddedCPU     = 0.3 // % of a core
	mostAddedMemory  = 3   // MB
	mostAddedPackets = 2 * 5 * 60
)

// overheadRows adds what workers take without and with distances, and the difference.
func overheadRows(e *experiment.Env, workers int, off, on idleCost) {
	row := func(params map[string]any, metric, unit string, v float64) *experiment.Row {
		return e.Row(experiment.Row{Params: experiment.With(params, "workers", workers), Metric: metric, Unit: unit, Measured: v})
	}
	for _, x := range []struct {
		distances string
		c         idleCost
	}{{"off", off}, {"on", on}} {
		p := map[string]any{"distances": x.distances}
		row(p, "cpu", "ms/min", x.c.cpu)
		row(p, "memory", "MB PSS", x.c.memory)
		row(p, "private_memory", "MB", x.c.private)
		for _, to := range []struct {
			who string
			t   traffic
		}{{"workers", x.c.among}, {"cluster", x.c.control}} {
			p := experiment.With(p, "with", to.who)
			row(p, "packets", "1/min", to.t.packets)
			row(p, "bytes", "1/min", to.t.bytes)
		}
	}
	r := row(nil, "cpu_added", "% of a core", (on.cpu-off.cpu)/600)
	r.Paper = experiment.Known(3)
	e.AtMost(r, mostAddedCPU, "a tenth of the paper's")
	r = row(nil, "memory_added", "MB", on.private-off.private)
	r.Paper = experiment.Known(3)
	e.AtMost(r, mostAddedMemory, "the paper's")
	r = row(map[string]any{"with": "workers"}, "packets_added", "1/min", on.among.packets-off.among.packets)
	e.AtMost(r, mostAddedPackets, "a measurement a second, of five questions with their answers")
	row(map[string]any{"with": "cluster"}, "packets_added", "1/min", on.control.packets-off.control.packets)
}

// costOf looks at the workers for some time.
func costOf(ctx context.Context, n bed.Network, window time.Duration) (c idleCost, err error) {
	used := func() (sum bed.Use, err error) {
		for _, w := range n.Workers {
			u, err := n.Used(w)
			if err != nil {
				return sum, err
			}
			sum.Cpu, sum.Pss, sum.Private = sum.Cpu+u.Cpu, sum.Pss+u.Pss, sum.Private+u.Private
		}
		return sum, nil
	}
	sent := func() (among, control emul.Count, err error) {
		st, err := n.Stats()
		if err != nil {
			return among, control, err
		}
		cluster := []string{"edge"}
		return n.Between(st, n.Workers, n.Workers), n.Between(st, n.Workers, cluster).Add(n.Between(st, cluster, n.Workers)), nil
	}
	u0, err := used()
	if err != nil {
		return c, err
	}
	among0, control0, err := sent()
	if err != nil {
		return c, err
	}
	begin := time.Now()
	if err := experiment.Pause(ctx, window); err != nil {
		return c, err
	}
	among1, control1, err := sent()
	if err != nil {
		return c, err
	}
	per := time.Since(begin).Minutes() * float64(len(n.Workers))
	u1, err := used()
	if err != nil {
		return c, err
	}
	in := func(a, b emul.Count) traffic {
		return traffic{float64(b.Sent-a.Sent) / per, float64(b.Bytes-a.Bytes) / per}
	}
	return idleCost{
		cpu: lab.Milliseconds(u1.Cpu-u0.Cpu) / per, memory: u1.Pss / float64(len(n.Workers)), private: u1.Private / float64(len(n.Workers)),
		among: in(among0, among1), control: in(control0, control1),
	}, nil
}
