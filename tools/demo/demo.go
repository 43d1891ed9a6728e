package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/tools/stage"
)

const (
	application = "guestbook"
	service     = "front"
	// stepTimeout bounds each step. Ten times what it takes; on a busy machine
	// everything is slower.
	stepTimeout = 30 * time.Second
	// calm is how long the visitors are watched between two events.
	calm = 2 * time.Second
)

var clusters = []string{"edge", "fog", "cloud"}

// demo is the state of the play.
type demo struct {
	stage *stage.Stage
	file  string
	rate  int
	out   *report

	root     *stage.Root
	clusters map[string]*stage.Cluster
	workers  []*stage.Worker
	load     *load
}

// play does everything but the clearing away.
func (d *demo) play(ctx context.Context) error {
	if err := d.raise(ctx); err != nil {
		return err
	}
	if err := d.apply(ctx); err != nil {
		return err
	}
	var gateways []string
	for _, w := range d.workers {
		if w.Gateway != "" {
			gateways = append(gateways, w.Gateway)
		}
	}
	d.load = newLoad(gateways)
	visiting, leave := context.WithCancel(ctx)
	defer leave()
	var visitors sync.WaitGroup
	visitors.Go(func() { d.load.run(visiting, d.rate) })
	defer visitors.Wait()
	defer leave()
	begin := time.Now()
	d.out.step("visitors come, %d a second, one in %d signs, through the gateways of %d workers", d.rate, postEvery,
		len(gateways))
	if err := watch(ctx); err != nil {
		return err
	}
	d.shares(begin)
	if err := d.loseWorker(ctx); err != nil {
		return err
	}
	if err := d.loseRoot(ctx); err != nil {
		return err
	}
	leave()
	visitors.Wait()
	return d.balance(ctx, begin)
}

// raise starts root, clusters and workers; the workers with the number 1 are
// gateways.
func (d *demo) raise(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	begin := time.Now()
	if d.root, err = d.stage.Root(ctx); err != nil {
		return err
	}
	d.out.step("the root answers (process %d)", d.root.PID())
	d.clusters = map[string]*stage.Cluster{}
	var (
		mu   sync.Mutex
		errs []error
		all  sync.WaitGroup
	)
	for _, name := range clusters {
		all.Go(func() {
			c, workers, err := d.raiseCluster(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			d.clusters[name] = c
			d.workers = append(d.workers, workers...)
			errs = append(errs, err)
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	slices.SortFunc(d.workers, func(a, b *stage.Worker) int { return strings.Compare(a.ID, b.ID) })
	d.out.measured("start of 1 root, 3 clusters, 6 workers", "%s", ms(time.Since(begin)))
	return nil
}

func (d *demo) raiseCluster(ctx context.Context, name string) (*stage.Cluster, []*stage.Worker, error) {
	c, err := d.stage.Cluster(ctx, d.root, name)
	if err != nil {
		return c, nil, err
	}
	d.out.step("cluster %s has joined the root (process %d)", name, c.PID())
	workers := make([]*stage.Worker, 2)
	errs := make([]error, len(workers))
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			w, err := d.stage.Worker(ctx, c, fmt.Sprintf("%s-%d", name, i+1), i == 0)
			if workers[i], errs[i] = w, err; err != nil {
				return
			}
			gateway := ""
			if w.Gateway != "" {
				gateway = ", gateway http://" + w.Gateway
			}
			d.out.step("worker %s has joined %s (agent %d, engine %d%s)", w.ID, name, w.PID(), w.Engine, gateway)
		})
	}
	all.Wait()
	return c, workers, errors.Join(errs...)
}

// apply applies the guestbook with the command line, and shows what it says.
func (d *demo) apply(ctx context.Context) error {
	begin := time.Now()
	if err := d.show(ctx, "apply", "--timeout", stepTimeout.String(), d.file); err != nil {
		return err
	}
	d.out.measured("apply until every instance is ready", "%s", ms(time.Since(begin)))
	return d.show(ctx, "get", "instances")
}

// show runs a command of the client and prints it with its output.
func (d *demo) show(ctx context.Context, args ...string) error {
	d.out.step("$ verge %s", strings.Join(args, " "))
	cmd := d.stage.Command(ctx, d.root.Context, args...)
	cmd.Stdout, cmd.Stderr = d.out, d.out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("verge %s: %w", args[0], err)
	}
	return nil
}

// shares prints who answered how many visitors since begin.
func (d *demo) shares(begin time.Time) {
	by := map[string]int{}
	for _, r := range d.load.requests() {
		if r.failure == "" && !r.start.Before(begin) {
			by[r.instance+" on "+r.worker]++
		}
	}
	var lines []string
	for _, who := range slices.Sorted(func(yield func(string) bool) {
		for k := range by {
			if !yield(k) {
				return
			}
		}
	}) {
		lines = append(lines, fmt.Sprintf("%4d answers from %s", by[who], who))
	}
	_, _ = d.out.Write([]byte(strings.Join(lines, "\n") + "\n"))
}

// fronts are the ready instances of the front as a cluster knows them.
func fronts(list []apiv1.InstanceView) []apiv1.InstanceView {
	return slices.DeleteFunc(list, func(i apiv1.InstanceView) bool {
		return i.App != application || i.Service != service || i.State != wire.Running || !i.Ready || i.Unreachable
	})
}

// watch lets the visitors go on for a while.
func watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(calm):
		return nil
	}
}

// within polls check until it is true.
func within(ctx context.Context, what string, check func(ctx context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	for {
		ok, err := check(ctx)
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w", what, stepTimeout, errors.Join(ctx.Err(), err))
		case <-time.After(10 * time.Millisecond):
		}
	}
}
