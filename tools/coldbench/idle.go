package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/verge-edge/verge/tools/bench"
)

// settle is how long memory is let come to rest: until modules are gone, and the
// collectors of garbage have been.
const settle = 15 * time.Second

// perApp is how many functions an application has.
const perApp = 50

// idle is what the functions that nobody asks are called by -only.
const idle = "functions"

// functionApp is an application of functions, each a module of its own.
func functionApp(dir string, module []byte, app, n int) (name string, descriptor []byte, err error) {
	name = fmt.Sprintf("fns-%d", app)
	descriptor = fmt.Appendf(nil, "application: %s\nservices:\n", name)
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("fn-%d.wasm", app*perApp+i))
		if err := distinct(module, path, app*perApp+i); err != nil {
			return "", nil, err
		}
		descriptor = fmt.Appendf(descriptor,
			"  fn%d:\n    runtime: wasm\n    module: %s\n    replicas: {min: 0, max: 1}\n    idle: 1s\n"+
				"    resources: {cpu: 1m, memory: 1Mi, disk: 1Mi}\n    ports: [{name: http, protocol: http}]\n", i,
			path)
	}
	return name, descriptor, nil
}

// idleFunctions deploys functions, and says what the worker (agent and engine) takes
// more for them: when all are there and none was asked, and when each has been asked
// once and all sleep again.
func (b *measurer) idleFunctions(ctx context.Context) error {
	module, err := os.ReadFile(b.module)
	if err != nil {
		return err
	}
	pids := []int{b.worker.PID(), b.worker.Engine}
	// What sleeps counts where it is placed: all have room only without the others.
	rest := settle
	for _, k := range b.kinds {
		for _, s := range k.services {
			if err := b.Above.Applications.Delete(ctx, s.app); err != nil {
				return fmt.Errorf("deleting %s: %w", s.app, err)
			}
			rest = b.keep + settle
		}
	}
	if err := bench.Pause(ctx, rest); err != nil {
		return err
	}
	before, err := bench.Measure(pids)
	if err != nil {
		return err
	}
	var ids, apps []string
	for at := 0; at < b.functions; at += perApp {
		n := min(perApp, b.functions-at)
		app, descriptor, err := functionApp(b.dir, module, at/perApp, n)
		if err != nil {
			return err
		}
		if _, err := b.Above.Applications.Apply(ctx, descriptor, false); err != nil {
			return fmt.Errorf("applying %s: %w", app, err)
		}
		apps = append(apps, app)
		for i := range n {
			ids = append(ids, fmt.Sprintf("%s.fn%d.0", app, i))
		}
	}
	bench.Say("%d functions are deployed in %d applications", len(ids), len(apps))
	for _, id := range ids {
		if err := b.sleeps(ctx, id); err != nil {
			return err
		}
	}
	if err := b.ready(ctx, apps); err != nil {
		return err
	}
	add := func(when string) error {
		now, err := bench.Measure(pids)
		if err != nil {
			return err
		}
		b.Most(float64(now.PSS-before.PSS)/1e6, 50, "MB", "%d functions, %s: worker's memory (PSS) added", len(ids),
			when)
		b.Most(float64(now.Dirty-before.Dirty)/1e6, 50, "MB", "%d functions, %s: worker's private dirty memory added",
			len(ids), when)
		return nil
	}
	if err := bench.Pause(ctx, b.keep+settle); err != nil {
		return err
	}
	if err := add("never asked"); err != nil {
		return err
	}
	bench.Say("asking each once")
	list, err := b.engine.Entries(ctx)
	if err != nil {
		return err
	}
	client := newClient()
	asked := 0
	for _, e := range list {
		if len(e.App) < 4 || e.App[:4] != "fns-" {
			continue
		}
		if err := ask(ctx, client, e.Addr, "fn.test"); err != nil {
			return fmt.Errorf("%s.%s: %w", e.App, e.Service, err)
		}
		asked++
	}
	if asked != len(ids) {
		return fmt.Errorf("%d of %d functions have an entry", asked, len(ids))
	}
	if err := bench.Pause(ctx, b.keep+settle); err != nil {
		return err
	}
	for _, id := range ids {
		delete(b.asleep, id)
	}
	b.seq = 0 // all there are
	for _, id := range ids {
		if err := b.sleeps(ctx, id); err != nil {
			return err
		}
	}
	return add("asked once each")
}

// ready returns when the services of the applications have their entries.
func (b *measurer) ready(ctx context.Context, apps []string) error {
	for _, app := range apps {
		if _, err := b.entry(ctx, app); err != nil {
			return err
		}
	}
	return nil
}
