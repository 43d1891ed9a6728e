// Command footprint is `make footprint`: what a root, a cluster and a worker cost
// on this machine, each its own process. A worker is its agent and its engine
// together. It prints one JSON object {what, value, unit, reach, ok} a line and
// writes the same as a page with its method. A figure that is to be reached and is
// not ends the program with status 1, after all has been measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/tools/bench"
	"github.com/verge-edge/verge/tools/stage"
)

// Parts of what is measured, in their order on the page.
const (
	partRoles      = "roles"
	partContainers = "containers"
)

type options struct {
	verge, out   string
	part         string
	settle, span time.Duration
	rounds, many int
}

func main() {
	var o options
	flag.StringVar(&o.verge, "verge", "bin/verge", "the verge binary")
	flag.StringVar(&o.out, "out", "docs/footprint.md", "the page to write, none if empty")
	flag.StringVar(&o.part, "part", "all",
		"what is measured: all, roles or containers; the page keeps what it has of the other part")
	flag.DurationVar(&o.settle, "settle", time.Minute, "time from the start to the measurement of idle processes")
	flag.DurationVar(&o.span, "span", time.Minute, "length of that measurement")
	flag.IntVar(&o.rounds, "rounds", 11, "how often one instance is deployed")
	flag.IntVar(&o.many, "many", 100, "how many instances are deployed at once")
	flag.Parse()
	if !slices.Contains([]string{"all", partRoles, partContainers}, o.part) {
		fmt.Fprintf(os.Stderr, "footprint: -part %q must be all, roles or containers\n", o.part)
		os.Exit(2)
	}
	if code, done := isolated(); done {
		os.Exit(code)
	}
	bench.Main(func(ctx context.Context) error { return run(ctx, o) })
}

// measurer is what is measured, and the figures so far.
type measurer struct {
	options
	bench.Figures
	*stage.Small
	worker *stage.Worker
	// containerd is that of the worker of containers; nil without one.
	containerd *containertest.Containerd
	notes      []string // what could not be measured
	sections   map[string]string
}

// role is a part of Verge and its processes.
type role struct {
	name string
	pids []int
}

func (b *measurer) roles() []role {
	return []role{
		{"root", []int{b.Root.PID()}},
		{"cluster", []int{b.Cluster.PID()}},
		{"worker", []int{b.worker.PID(), b.worker.Engine}},
	}
}

func run(ctx context.Context, o options) (err error) {
	b := &measurer{options: o, sections: map[string]string{}}
	if _, err := os.Stat(o.verge); err != nil {
		return fmt.Errorf("the verge binary: %w (make build makes it)", err)
	}
	load := loadAverage()
	if b.Small, err = stage.Begin(ctx, o.verge, nil); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, b.End())
		if b.containerd != nil { // what ran in it has ended
			err = errors.Join(err, b.containerd.Close())
		}
	}()
	for _, p := range []struct {
		name    string
		measure func(context.Context) error
	}{{partRoles, b.measureRoles}, {partContainers, b.measureContainers}} {
		if o.part != "all" && o.part != p.name {
			continue
		}
		b.All, b.notes = nil, nil
		if err := p.measure(ctx); err != nil {
			return err
		}
		b.sections[p.name] = b.section(machine(b.Stage.Dir), load)
	}
	if o.out == "" {
		return b.Missed()
	}
	if err := b.write(); err != nil {
		return err
	}
	return b.Missed()
}

// measureRoles measures the roles, of which the worker runs processes.
func (b *measurer) measureRoles(ctx context.Context) error {
	binary, err := os.Stat(b.verge)
	if err != nil {
		return err
	}
	lab, err := os.Stat(b.verge + "-lab")
	if err != nil {
		return fmt.Errorf("the binary of the lab: %w (make build makes it)", err)
	}
	if b.worker, err = b.Stage.Worker(ctx, b.Cluster, "edge-1", false); err != nil {
		return err
	}
	b.Most(float64(binary.Size())/1e6, 60, "MB", "binary, stripped")
	b.Note(float64(lab.Size())/1e6, "MB", "binary of the lab, stripped")
	if err := b.idle(ctx); err != nil {
		return fmt.Errorf("measuring the idle processes: %w", err)
	}
	if err := b.deploys(ctx); err != nil {
		return fmt.Errorf("measuring deployments: %w", err)
	}
	if err := b.networked(ctx); err != nil {
		return fmt.Errorf("measuring a worker in the service network: %w", err)
	}
	return nil
}

// budget of an idle role; bytes written in a minute.
type budget struct{ pss, dirty, cpu, written float64 }

var budgets = map[string]budget{
	"root":    {pss: 45, dirty: 25, cpu: 60, written: 4 << 10},
	"cluster": {pss: 45, dirty: 25, cpu: 60, written: 4 << 10},
	"worker":  {pss: 28, dirty: 18, cpu: 40, written: 0},
}

// idle measures the processes when nothing is deployed.
func (b *measurer) idle(ctx context.Context) error {
	if err := bench.Pause(ctx, b.settle); err != nil {
		return err
	}
	roles := b.roles()
	before := make([]bench.Use, len(roles))
	var err error
	for i, r := range roles {
		if before[i], err = bench.Measure(r.pids); err != nil {
			return err
		}
	}
	wireBefore, uncounted := traffic(ctx, b.roles()[2].pids)
	if err := bench.Pause(ctx, b.span); err != nil {
		return err
	}
	for i, r := range roles {
		if err := b.used(r, budgets[r.name], before[i]); err != nil {
			return err
		}
	}
	b.packets(ctx, b.roles()[2], wireBefore, uncounted)
	return nil
}

// used adds what an idle role has and what it has used since before.
func (b *measurer) used(r role, most budget, before bench.Use) error {
	now, err := bench.Measure(r.pids)
	if err != nil {
		return err
	}
	minutes := b.span.Minutes()
	b.Most(float64(now.PSS)/1e6, most.pss, "MB", "idle %s: memory, proportional (PSS)", r.name)
	b.Most(float64(now.Dirty)/1e6, most.dirty, "MB", "idle %s: memory, private dirty", r.name)
	b.Most(bench.Milliseconds(now.CPU-before.CPU), most.cpu*minutes, "ms", "idle %s: processor time in %s", r.name,
		b.spanText())
	b.Most(float64(now.Written-before.Written), most.written*minutes, "B", "idle %s: written to disk in %s", r.name,
		b.spanText())
	return nil
}

// networked measures a second worker, which is in the service network.
func (b *measurer) networked(ctx context.Context) error {
	if os.Getenv(inside) == "" {
		b.notes = append(b.notes,
			"A worker in the service network was not measured: it needs root, and a network of its own for the "+
				"measurement.")
		return nil
	}
	w, err := b.Stage.Worker(ctx, b.Cluster, "edge-2", false, "--network", "overlay")
	if err != nil {
		return err
	}
	r := role{"worker in the service network", []int{w.PID(), w.Engine}}
	if err := bench.Pause(ctx, b.settle); err != nil {
		return err
	}
	before, err := bench.Measure(r.pids)
	if err != nil {
		return err
	}
	wireBefore, uncounted := traffic(ctx, r.pids)
	if err := bench.Pause(ctx, b.span); err != nil {
		return err
	}
	if err := b.used(r, budgets["worker"], before); err != nil {
		return err
	}
	b.packets(ctx, r, wireBefore, uncounted)
	return nil
}

// packets adds what the connections of an idle worker carried since before; failed is
// why that could not be counted.
func (b *measurer) packets(ctx context.Context, r role, before carried, failed error) {
	now := carried{}
	if failed == nil {
		now, failed = traffic(ctx, r.pids)
	}
	if failed == nil {
		failed = now.continues(before)
	}
	if failed != nil {
		b.notes = append(b.notes, "Packets of the "+r.name+" were not counted: "+failed.Error()+".")
		return
	}
	packets := now.packets - before.packets
	minutes := b.span.Minutes()
	b.Most(float64(packets), 26*minutes, "packets", "idle %s: on the wire in %s, both ways", r.name, b.spanText())
	b.Most(float64(now.bytes-before.bytes+packets*headers), 4096*minutes, "B",
		"idle %s: on the wire in %s, both ways, with headers", r.name, b.spanText())
}

// spanText is the length of the measurement, as "1m" or "90s".
func (b *measurer) spanText() string {
	s := b.span.String()
	if strings.HasSuffix(s, "m0s") {
		return strings.TrimSuffix(s, "0s")
	}
	return s
}
