// Command sizebench is `make bench-size`: what a cluster orchestrator takes at the size
// that it is made for. It starts a root, a cluster and hollow workers (verge worker
// --hollow), each group of them a process of its own, lets them join, rest, take
// instances, lose a group, and come and go while more is deployed, and measures what
// the cluster computes for that. It prints one JSON object a line
// {what, value, unit, reach, ok}. A figure that is to be reached and is not ends the
// program with status 1, after all has been measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/tools/bench"
)

type options struct {
	verge, memory     string
	workers, groups   int
	clusters          int
	instances, each   int
	span, churn       time.Duration
	timeout, replaced time.Duration
	steps             string
}

func main() {
	var o options
	flag.StringVar(&o.verge, "verge", "bin/verge", "the verge binary")
	flag.StringVar(&o.memory, "memory", "",
		"a folder on a file system in memory, for the workers' data, as /dev/shm; the cluster's is on the disk "+
			"in any case")
	flag.IntVar(&o.workers, "workers", 10_000, "how many hollow workers there are")
	flag.IntVar(&o.clusters, "clusters", 1000,
		"how many clusters the root has that is measured at last, without workers; 0: it is not")
	flag.IntVar(&o.groups, "groups", 10, "in how many processes")
	flag.IntVar(&o.instances, "instances", 10_000, "how many instances are placed on them")
	flag.IntVar(&o.each, "each", 500, "how many of them one application has")
	flag.DurationVar(&o.span, "span", time.Minute, "how long they rest, for the measurement of an idle cluster")
	flag.DurationVar(&o.churn, "churn", time.Minute,
		"how long workers come and go, a group each minute; 0: they do not")
	flag.DurationVar(&o.timeout, "timeout", 20*time.Minute, "how long each step may take")
	flag.DurationVar(&o.replaced, "replace-after", time.Second, "replace_after of the instances")
	flag.StringVar(&o.steps, "steps", strings.Join(allSteps, ","),
		"what is done, in this order, with the cluster; all but join need what was before")
	// How it starts itself.
	serve := flag.String("serve-clusters", "", "")
	contextFile := flag.String("context", "", "")
	from, to := flag.Int("from", 0, ""), flag.Int("to", 0, "")
	flag.Parse()
	bench.Main(func(ctx context.Context) error {
		if *serve != "" {
			return serveClusters(ctx, *serve, *contextFile, *from, *to)
		}
		return run(ctx, o)
	})
}

func run(ctx context.Context, o options) error {
	if o.workers == 0 { // the root alone
		b := &measurer{options: o}
		if err := b.rootAtSize(ctx); err != nil {
			return err
		}
		return b.Missed()
	}
	if o.workers < o.groups || o.groups < 1 || o.instances < o.each || o.each < 1 {
		return errors.New("there must be as many workers as groups, and as many instances as one application has")
	}
	b, err := newMeasurer(ctx, o)
	if err != nil {
		return err
	}
	err = b.measure(ctx)
	if err = errors.Join(err, b.close()); err != nil {
		return err
	}
	if o.clusters > 0 {
		if err := b.rootAtSize(ctx); err != nil {
			return err
		}
	}
	return b.Missed()
}

// allSteps are those that measure one cluster.
var allSteps = []string{"join", "idle", "place", "idle", "lose", "come", "restart", "stop"}

// measure takes the steps.
func (b *measurer) measure(ctx context.Context) error {
	known := map[string]func(context.Context) error{
		"join": b.join, "idle": b.idle, "place": b.place, "lose": b.lose, "come": b.come, "restart": b.restart,
		"stop": b.stop,
	}
	for _, name := range strings.Split(b.steps, ",") {
		step := known[name]
		if step == nil {
			return fmt.Errorf("there is no step %q, only %s", name, strings.Join(allSteps, ", "))
		}
		if err := step(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
