package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/tools/bench"
)

// descriptor of so many instances that do nothing. Their reservations are small
// enough for a hundred on one worker.
func descriptor(app string, replicas int) []byte {
	return fmt.Appendf(nil, `application: %s
services:
  idle:
    command: [sleep, infinity]
    replicas: %d
    resources: {cpu: 5m, memory: 8Mi, disk: 1Mi}
    stop: {signal: KILL}
`, app, replicas)
}

// describe writes the descriptor of an application.
type describe func(app string, replicas int) []byte

const (
	timeout = 2 * time.Minute  // with one deployment
	settle  = 15 * time.Second // until the collectors of garbage have been
)

// deploys measures what it takes until instances run.
func (b *measurer) deploys(ctx context.Context) error {
	c := b.Above
	if _, err := b.once(ctx, c, "warm", 1, descriptor); err != nil { // connections and caches
		return err
	}
	if err := b.rounded(ctx, c, 150, "one instance", descriptor); err != nil {
		return err
	}
	return b.deployMany(ctx, c)
}

// rounded measures how long one instance takes, several times over.
func (b *measurer) rounded(ctx context.Context, c *client.Client, most float64, what string, text describe) error {
	var times []time.Duration
	for i := range b.rounds {
		d, err := b.once(ctx, c, fmt.Sprintf("one-%d", i), 1, text)
		if err != nil {
			return err
		}
		times = append(times, d)
	}
	if len(times) == 0 {
		return nil
	}
	slices.Sort(times)
	b.Most(bench.Milliseconds(times[len(times)/2]), most, "ms", "apply to Running, %s: median of %d", what, len(times))
	b.Note(bench.Milliseconds(times[len(times)-1]), "ms", "apply to Running, %s: longest of %d", what, len(times))
	return nil
}

// once deploys and deletes again, and says how long the deployment took.
func (b *measurer) once(ctx context.Context, c *client.Client, app string, replicas int, text describe) (time.Duration,
	error) {
	took, err := deploy(ctx, c, app, text(app, replicas), replicas)
	if err != nil {
		return 0, err
	}
	return took, remove(ctx, c, app)
}

// deployMany deploys many instances on the one worker.
func (b *measurer) deployMany(ctx context.Context, c *client.Client) error {
	if b.many == 0 {
		return nil
	}
	if err := bench.Pause(ctx, settle); err != nil {
		return err
	}
	before, err := b.all()
	if err != nil {
		return err
	}
	took, err := deploy(ctx, c, "many", descriptor("many", b.many), b.many)
	if err != nil {
		return err
	}
	after, err := b.all()
	if err != nil {
		return err
	}
	n := float64(b.many)
	b.Most(took.Seconds(), 3*n/100, "s", "apply to Running, %d instances on one worker", b.many)
	for i, r := range b.roles() {
		b.Note(bench.Milliseconds(after[i].Ticks-before[i].Ticks)/n, "ms",
			"%s: processor time per instance, %d deployed at once", r.name, b.many)
	}
	b.Most(bench.Milliseconds(ticks(before, after))/n, 10, "ms",
		"all of Verge: processor time per instance, %d deployed at once", b.many)
	if err := bench.Pause(ctx, settle); err != nil {
		return err
	}
	if after, err = b.all(); err != nil {
		return err
	}
	b.Most(float64(after[2].PSS-before[2].PSS)/1e6/n, 0.3, "MB", "worker: memory (PSS) per instance, with %d", b.many)
	return remove(ctx, c, "many")
}

// ticks is what all roles together had of the processor between two looks.
func ticks(before, after []bench.Use) (sum time.Duration) {
	for i := range before {
		sum += after[i].Ticks - before[i].Ticks
	}
	return sum
}

func (b *measurer) all() (out []bench.Use, err error) {
	for _, r := range b.roles() {
		u, err := bench.Measure(r.pids)
		if err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	return out, nil
}

// deploy applies an application and returns when the root says that all its
// instances run: the time is what a user sees.
func deploy(ctx context.Context, c *client.Client, app string, text []byte, replicas int) (time.Duration, error) {
	begin := time.Now()
	if _, err := c.Applications.Apply(ctx, text, false); err != nil {
		return 0, fmt.Errorf("applying %s: %w", app, err)
	}
	var took time.Duration
	err := until(ctx, c, func() (bool, error) {
		list, err := c.Instances.List(ctx, app, "")
		running := 0
		for _, i := range list {
			if i.State == wire.Running {
				running++
			}
		}
		took = time.Since(begin)
		return running == replicas, err
	})
	if err != nil {
		return 0, fmt.Errorf("waiting for %d instances of %s: %w", replicas, app, err)
	}
	return took, nil
}

// remove deletes an application and waits until nothing is left of it.
func remove(ctx context.Context, c *client.Client, app string) error {
	if err := c.Applications.Delete(ctx, app); err != nil {
		return fmt.Errorf("deleting %s: %w", app, err)
	}
	err := until(ctx, c, func() (bool, error) {
		list, err := c.Applications.List(ctx)
		return !slices.ContainsFunc(list, func(a apiv1.AppView) bool { return a.Name == app }), err
	})
	if err != nil {
		return fmt.Errorf("waiting until %s is gone: %w", app, err)
	}
	return nil
}

// until looks whenever something has happened, so that looking costs little.
func until(ctx context.Context, c *client.Client, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var after uint64
	for {
		page, err := c.Events.After(ctx, after, time.Second)
		if err != nil {
			return err
		}
		after = page.After
		if ok, err := done(); ok || err != nil {
			return err
		}
	}
}
