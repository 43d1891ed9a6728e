package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/tools/bench"
	"github.com/verge-edge/verge/tools/stage"
)

// measurer is what is measured.
type measurer struct {
	options
	bench.Figures
	*stage.Small

	hollow []*stage.Hollow // by group
	fast   string          // where their data lies; "" is on the stage
	apps   []string
}

// heartbeatInterval is the time between two heartbeats of a worker that has nothing to say, less
// its jitter.
const heartbeatInterval = 9500 * time.Millisecond

func newMeasurer(ctx context.Context, o options) (*measurer, error) {
	b := &measurer{options: o}
	var err error
	if b.Small, err = stage.Begin(ctx, o.verge, b.inMemory); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// inMemory lets the workers' data lie in memory, where that was asked for.
func (b *measurer) inMemory(s *stage.Stage) (err error) {
	if b.memory == "" {
		return nil
	}
	if b.fast, err = os.MkdirTemp(b.memory, "verge-hollow-"); err != nil {
		return err
	}
	return os.Symlink(b.fast, filepath.Join(s.Dir, "workers"))
}

func (b *measurer) close() error {
	err := b.End()
	if b.fast != "" {
		err = errors.Join(err, os.RemoveAll(b.fast))
	}
	return err
}

// use is what the cluster has used so far.
func (b *measurer) use() (bench.Use, error) { return bench.Measure([]int{b.Cluster.PID()}) }

// others are what the root and the hollow workers have used so far: on one machine they
// have the same processors.
func (b *measurer) others() (root, workers bench.Use, err error) {
	var pids []int
	for _, h := range b.hollow {
		pids = append(pids, h.PID())
	}
	if root, err = bench.Measure([]int{b.Root.PID()}); err == nil {
		workers, err = bench.Measure(pids)
	}
	return root, workers, err
}

// until polls what a condition asks, until it holds.
func (b *measurer) until(ctx context.Context, what string, holds func(context.Context) (bool, string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	last := ""
	for {
		ok, is, err := holds(ctx)
		if ok {
			return nil
		}
		if err == nil {
			last = is
		} // else it is busy, and asked again
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: at last %s: %w", what, last, errors.Join(ctx.Err(), err))
		case <-time.After(time.Second):
		}
	}
}

// ready waits until so many workers are.
func (b *measurer) ready(ctx context.Context, workers int) error {
	return b.until(ctx, fmt.Sprintf("%d workers are ready", workers), func(ctx context.Context) (bool, string, error) {
		list, err := b.Above.Clusters.List(ctx)
		if err != nil || len(list) != 1 || list[0].Aggregate == nil {
			return false, "nothing is known of the cluster", err
		}
		a := list[0].Aggregate
		return a.Workers == workers, fmt.Sprintf("%d are, %d are suspect", a.Workers, a.Suspect), nil
	})
}

// join lets all workers in, a group after the other.
func (b *measurer) join(ctx context.Context) error {
	before, err := b.use()
	if err != nil {
		return err
	}
	begin := time.Now()
	for g := range b.groups {
		h, err := b.Stage.Hollow(ctx, b.Cluster, fmt.Sprintf("g%d", g), b.size(g), b.timeout)
		if err != nil {
			return err
		}
		b.hollow = append(b.hollow, h)
	}
	if err := b.ready(ctx, b.workers); err != nil {
		return err
	}
	took := time.Since(begin)
	after, err := b.use()
	if err != nil {
		return err
	}
	n := float64(b.workers)
	b.Note(bench.Milliseconds(after.Ticks-before.Ticks)/n, "ms", "cluster: processor time per worker that joins, of %d",
		b.workers)
	b.Note(took.Seconds(), "s", "until all %d workers are ready", b.workers)
	return nil
}

// size of a group: they differ by one at most.
func (b *measurer) size(g int) int {
	return b.workers*(g+1)/b.groups - b.workers*g/b.groups
}

// idle measures the cluster while nothing happens but heartbeats.
func (b *measurer) idle(ctx context.Context) error {
	if err := bench.Pause(ctx, 2*heartbeatInterval); err != nil { // until what happened before is over
		return err
	}
	before, err := b.use()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := bench.Pause(ctx, b.span); err != nil {
		return err
	}
	after, err := b.use()
	if err != nil {
		return err
	}
	took, cpu := time.Since(begin), after.Ticks-before.Ticks
	what := fmt.Sprintf("idle cluster of %d workers and %d instances", b.workers, len(b.apps)*b.each)
	b.Most(cpu.Seconds()/took.Seconds(), 0.3, "cores", "%s: processor", what)
	b.Most(float64(after.PSS)/1e9, 1.5, "GB", "%s: memory (PSS)", what)
	b.Most(float64(cpu.Microseconds())*heartbeatInterval.Seconds()/float64(b.workers)/took.Seconds(), 80, "µs",
		"%s: processor time per heartbeat", what)
	b.Note(float64(after.Written-before.Written), "B", "%s: written to disk in %s", what, took.Round(time.Second))
	return nil
}

// place deploys all instances and waits until they run.
func (b *measurer) place(ctx context.Context) error {
	before, err := b.use()
	if err != nil {
		return err
	}
	rootBefore, workersBefore, err := b.others()
	if err != nil {
		return err
	}
	begin := time.Now()
	for n := range b.instances / b.each {
		app := fmt.Sprintf("app-%d", n)
		if _, err := b.Above.Applications.Apply(ctx, b.descriptor(app, b.each), false); err != nil {
			return fmt.Errorf("applying %s: %w", app, err)
		}
		b.apps = append(b.apps, app)
	}
	applied := time.Since(begin)
	all, err := b.running(ctx)
	if err != nil {
		return err
	}
	after, err := b.use()
	if err != nil {
		return err
	}
	rootAfter, workersAfter, err := b.others()
	if err != nil {
		return err
	}
	var first, placed, ran time.Time
	for _, i := range all {
		for _, h := range i.History {
			switch h.To {
			case wire.ClusterScheduled:
				first = earlier(first, h.At)
			case wire.WorkerScheduled:
				placed = later(placed, h.At)
			case wire.Running:
				ran = later(ran, h.At)
			default:
			}
		}
	}
	n := float64(len(all))
	b.Note(applied.Seconds(), "s", "until %d applications with %d instances were accepted", len(b.apps), len(all))
	b.Note(n/placed.Sub(begin).Seconds(), "1/s",
		"placements, from the first apply until the last instance is placed")
	b.Least(n/ran.Sub(begin).Seconds(), 3000, "1/s", "placements, from the first apply until the last instance runs")
	b.Note(ran.Sub(first).Seconds(), "s", "from the first record at the cluster until the last instance runs")
	b.Note(bench.Milliseconds(after.Ticks-before.Ticks)/n, "ms",
		"cluster: processor time per instance, until it runs")
	b.Note(bench.Milliseconds(rootAfter.Ticks-rootBefore.Ticks)/n, "ms", "root: processor time per instance")
	b.Note(bench.Milliseconds(workersAfter.Ticks-workersBefore.Ticks)/n, "ms",
		"hollow workers, on the same machine: processor time per instance")
	b.Note(float64(after.Written-before.Written)/n, "B",
		"cluster: written to disk per instance, until it runs")
	return nil
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// running waits until all instances of all applications run, and returns them as the
// cluster knows them. One that is there twice is an error.
func (b *measurer) running(ctx context.Context) (all []apiv1.InstanceView, err error) {
	err = b.until(ctx, "all instances run", func(ctx context.Context) (bool, string, error) {
		all = nil
		n := 0
		for _, app := range b.apps {
			list, err := b.Within.Instances.List(ctx, app, "")
			if err != nil {
				return false, "", err
			}
			seen := map[wire.InstanceID]bool{}
			for _, i := range list {
				if i.State == wire.Running && i.Worker != "" && !i.Unreachable && !seen[i.ID] {
					n++
				}
				seen[i.ID] = true
			}
			all = append(all, list...)
		}
		want := len(b.apps) * b.each
		return n == want && len(all) == want, fmt.Sprintf("%d of %d run, %d are there", n, want, len(all)), nil
	})
	return all, err
}

// lose kills a group of workers and waits until what they ran runs elsewhere.
func (b *measurer) lose(ctx context.Context) error {
	before, err := b.use()
	if err != nil {
		return err
	}
	killed := time.Now()
	if err := b.hollow[0].Kill(); err != nil {
		return err
	}
	if err := b.ready(ctx, b.workers-b.size(0)); err != nil {
		return err
	}
	all, err := b.running(ctx)
	if err != nil {
		return err
	}
	after, err := b.use()
	if err != nil {
		return err
	}
	var detected, failed, placed, ran time.Time
	n := 0
	for _, i := range all {
		lost := false
		for _, h := range i.History {
			if h.At.Before(killed) {
				continue
			}
			switch h.To {
			case wire.Failed:
				detected, failed, lost = earlier(detected, h.At), later(failed, h.At), true
			case wire.WorkerScheduled:
				placed = later(placed, h.At)
			case wire.Running:
				ran = later(ran, h.At)
			default:
			}
		}
		if lost {
			n++
		}
	}
	if n == 0 {
		return errors.New("nothing ran on the workers that were killed")
	}
	b.Note(detected.Sub(killed).Seconds(), "s", "from the kill of %d workers until the first instance is lost (replace_after is %s)",
		b.size(0), b.replaced)
	b.Note(failed.Sub(detected).Seconds(), "s", "from then until the last of their instances is lost")
	b.Most(placed.Sub(detected).Seconds(), 2, "s",
		"from then until the last of the %d instances that ran there is placed elsewhere", n)
	b.Note(ran.Sub(detected).Seconds(), "s", "from then until the last of them runs there")
	b.Note(bench.Milliseconds(after.Ticks-before.Ticks)/float64(n), "ms", "cluster: processor time per replaced instance")
	return nil
}

// come lets groups of workers come and go, one each minute, while more is deployed, and
// waits until all is as it should be.
func (b *measurer) come(ctx context.Context) error {
	if err := b.hollow[0].Start(ctx, b.timeout); err != nil {
		return err
	}
	if b.churn == 0 {
		return nil
	}
	begin := time.Now()
	for n := 0; time.Since(begin) < b.churn; n++ {
		g := b.hollow[1+n%(len(b.hollow)-1)]
		if err := g.Kill(); err != nil {
			return err
		}
		app := fmt.Sprintf("more-%d", n)
		if _, err := b.Above.Applications.Apply(ctx, b.descriptor(app, b.each), false); err != nil {
			return fmt.Errorf("applying %s: %w", app, err)
		}
		b.apps = append(b.apps, app)
		if err := bench.Pause(ctx, 30*time.Second); err != nil {
			return err
		}
		if err := g.Start(ctx, b.timeout); err != nil {
			return err
		}
		if err := bench.Pause(ctx, time.Until(begin.Add(time.Duration(n+1)*time.Minute))); err != nil {
			return err
		}
	}
	ended := time.Now()
	if err := b.ready(ctx, b.workers); err != nil {
		return err
	}
	all, err := b.running(ctx)
	if err != nil {
		return err
	}
	b.Note(time.Since(ended).Seconds(), "s",
		"after %s in which a tenth of the workers went each minute: until all %d instances run, each once", b.churn,
		len(all))
	return nil
}

// restart kills the cluster orchestrator, starts it again and waits until it has heard
// from all workers: all of them connect anew at the same time.
func (b *measurer) restart(ctx context.Context) error {
	if err := b.Cluster.Kill(); err != nil {
		return err
	}
	if err := bench.Pause(ctx, heartbeatInterval); err != nil { // until all of them try
		return err
	}
	rootBefore, workersBefore, err := b.others()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := b.Cluster.Start(ctx); err != nil {
		return err
	}
	b.Note(time.Since(begin).Seconds(), "s", "from the restart of a killed cluster orchestrator until it answers")
	err = b.until(ctx, "all workers are heard again", func(ctx context.Context) (bool, string, error) {
		st, err := b.Within.System.Status(ctx)
		if err != nil {
			return false, "", err
		}
		n := 0
		for _, w := range st.Workers {
			if w.Status == "ready" {
				n++
			}
		}
		return n == b.workers, fmt.Sprintf("%d of %d", n, len(st.Workers)), nil
	})
	if err != nil {
		return err
	}
	took := time.Since(begin)
	use, err := b.use()
	if err != nil {
		return err
	}
	rootAfter, workersAfter, err := b.others()
	if err != nil {
		return err
	}
	n := float64(b.workers)
	b.Most(took.Seconds(), 30, "s", "from the restart until all %d workers are heard again", b.workers)
	b.Note(bench.Milliseconds(use.Ticks)/n, "ms", "cluster: processor time per worker until then")
	b.Note(bench.Milliseconds(workersAfter.Ticks-workersBefore.Ticks)/n, "ms",
		"hollow workers, on the same machine: processor time per worker until then")
	b.Note(bench.Milliseconds(rootAfter.Ticks-rootBefore.Ticks)/n, "ms", "root: processor time per worker until then")
	_, err = b.running(ctx)
	return err
}

// stop measures how long the cluster orchestrator takes to end when it is asked to.
func (b *measurer) stop(ctx context.Context) error {
	begin := time.Now()
	if err := b.Cluster.Stop(ctx); err != nil {
		return err
	}
	b.Note(time.Since(begin).Seconds(), "s",
		"from SIGTERM until a cluster orchestrator of %d workers has ended", b.workers)
	return nil
}

// descriptor of an application with one service.
func (b *measurer) descriptor(app string, replicas int) []byte {
	return fmt.Appendf(nil, `application: %s
services:
  idle:
    command: [idle]
    replicas: %d
    replace_after: %s
    resources: {cpu: 100m, memory: 64Mi, disk: 1Mi}
`, app, replicas, b.replaced)
}
