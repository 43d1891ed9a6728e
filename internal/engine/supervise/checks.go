package supervise

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/verge-edge/verge/internal/engine/environment"
	"github.com/verge-edge/verge/internal/engine/health"
	"github.com/verge-edge/verge/internal/engine/state"
)

// checks of the running task. A faulty one does not prevent the others.
func (in *Instance) checks() (health.Checker, error) {
	order := &in.rec.Order
	found, err := health.Of(order.Spec, in.rec.Ports)
	x := health.Checker{Checks: found, Ready: in.life.ready()}
	if in.rec.Up {
		x.Startup = nil
	}
	task, env := in.task, []string(nil)
	for _, c := range []*health.Check{x.Startup, x.Readiness, x.Liveness} {
		if c != nil {
			c.Quick = in.life.sleeps()
			c.Hosts = in.net.Addrs
		}
		if c == nil || c.Command == nil && (c.Path == "" || len(order.Spec.EnvSecrets) == 0) {
			continue
		}
		if in.env == nil {
			var e error
			in.env, e = in.environment()
			if e != nil && c.Command != nil {
				// It runs, so there was one once; but there is no way to know it.
				return health.Checker{}, fmt.Errorf("its checks can't be made: %w", e)
			}
			c.Mute = e != nil
		}
		env, c.Hidden = in.env, in.hidden
		if c.Command == nil {
			continue
		}
		var e error
		if c.Command, e = environment.Expand(c.Command, env); e != nil {
			return health.Checker{}, fmt.Errorf("%s: %w", c.Kind, e)
		}
	}
	x.Probe = func(ctx context.Context, c *health.Check) error {
		if c.Command == nil {
			return health.Timed(ctx, c.Timeout, func(ctx context.Context) error {
				if len(c.Hosts) > 0 {
					return health.ProbeHosts(ctx, in.deps.Checks.Prober, c, task.Handle().PID,
						func(a netip.Addr) { in.deps.Board.AnswersAt(in.ID, a) })
				}
				return in.deps.Checks.Prober.Probe(ctx, *c)
			})
		}
		select {
		case in.deps.Checks.Commands <- struct{}{}:
			defer func() { <-in.deps.Checks.Commands }()
		case <-ctx.Done():
			return ctx.Err()
		}
		return health.Timed(ctx, c.Timeout, func(ctx context.Context) error {
			return health.ProbeCommand(ctx, task, c, append([]string{state.EnvExec + "=1"}, env...))
		})
	}
	return x, err
}

// environment of the running task, as a start would give it now, without secrets that have been
// removed.
func (in *Instance) environment() ([]string, error) {
	around, err := in.surroundings(in.snap())
	if err != nil {
		return nil, err
	}
	_, vars, err := environment.Resolve(&in.rec.Order, around)
	if err != nil {
		return nil, err
	}
	known, err := in.deps.Secrets.OpenOrder(&in.rec.Order)
	if err != nil {
		in.log.Info("a command beside it goes without a secret", "why", err)
	}
	in.hidden, err = known.Fill(&in.rec.Order, vars)
	return environment.List(vars), err
}
