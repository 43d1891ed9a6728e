package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/verge-edge/verge/api"
)

// examination is what checks the running task of an instance.
type examination struct {
	checks
	up, ready bool // what was known before
	probe     func(context.Context, *check) error
}

// checks of the task that runs. What is wrong with one of them does not keep the
// others from being made.
func (in *instance) checks() (examination, error) {
	order := &in.rec.Order
	found, err := checksOf(order.Spec, in.rec.Ports)
	x := examination{checks: found, up: in.rec.Up, ready: in.ready}
	if in.rec.Up {
		x.startup = nil
	}
	task, env := in.task, []string(nil)
	for _, c := range []*check{x.startup, x.readiness, x.liveness} {
		if c != nil {
			c.quick = in.asleep
			c.hosts = in.addrs
		}
		if c == nil || c.command == nil && (c.path == "" || len(order.Spec.EnvSecrets) == 0) {
			continue
		}
		if in.env == nil {
			var e error
			in.env, e = in.environment()
			if e != nil && c.command != nil {
				// It runs, so there was one once; but there is no way to know it.
				return examination{}, fmt.Errorf("its checks can't be made: %w", e)
			}
			c.mute = e != nil
		}
		env, c.hidden = in.env, in.hidden
		if c.command == nil {
			continue
		}
		var e error
		if c.command, e = expandAll(c.command, env); e != nil {
			return examination{}, fmt.Errorf("%s: %w", c.kind, e)
		}
	}
	x.probe = func(ctx context.Context, c *check) error {
		if c.command == nil {
			return timed(ctx, c.timeout, func(ctx context.Context) error {
				if len(c.hosts) > 0 {
					return in.answersOf(ctx, c, task.Handle().PID)
				}
				return in.kit.prober.probe(ctx, *c)
			})
		}
		select {
		case in.kit.commands <- struct{}{}:
			defer func() { <-in.kit.commands }()
		case <-ctx.Done():
			return ctx.Err()
		}
		return timed(ctx, c.timeout, func(ctx context.Context) error {
			return commandCheck(ctx, task, c, append([]string{envExec + "=1"}, env...))
		})
	}
	return x, err
}

// environment of the task that runs, as it would get it today. A secret that is
// not there any more is left out: what runs goes on without it.
func (in *instance) environment() ([]string, error) {
	around, err := in.surroundings(in.snap())
	if err != nil {
		return nil, err
	}
	_, vars, err := resolve(&in.rec.Order, around)
	if err != nil {
		return nil, err
	}
	known, err := in.kit.vault.open(&in.rec.Order)
	if err != nil {
		in.log.Info("a command beside it goes without a secret", "why", err)
	}
	in.hidden, err = known.fill(&in.rec.Order, vars)
	return environ(vars), err
}

// run makes the checks until ctx is done: first whether the instance has
// started, then the others. tell gets what they find.
func (x examination) run(ctx context.Context, tell func(verdict)) {
	one := func(c *check, passing bool) (passed bool) {
		checking(ctx, *c, passing, func(ctx context.Context) error { return x.probe(ctx, c) }, func(v verdict) bool {
			tell(v)
			passed = v.pass
			return v.final || v.kind == startupCheck && v.pass
		})
		return passed
	}
	if x.startup != nil && !one(x.startup, false) {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if x.readiness != nil {
		wg.Go(func() { one(x.readiness, x.ready) })
	}
	if x.liveness != nil {
		wg.Go(func() { one(x.liveness, true) })
	}
}

// expandAll fills in the variables of a command.
func expandAll(command, env []string) ([]string, error) {
	lookup := func(name string) (string, bool) {
		for _, kv := range env {
			if value, ok := strings.CutPrefix(kv, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
	out := make([]string, len(command))
	for i, part := range command {
		var err error
		if out[i], err = api.Expand(part, lookup); err != nil {
			return nil, fmt.Errorf("command[%d]: %w", i, err)
		}
	}
	return out, nil
}
