package engine

import (
	"context"
	"fmt"

	"github.com/verge-edge/verge/internal/engine/invoke"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/supervise"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Exec takes one step of a session, sends a request to an instance, or takes a step of a
// profile: rpc.ExecAsk says which.
func (e *Engine) Exec(ctx context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error) {
	if err := e.wait(ctx); err != nil {
		return rpc.ExecAnswer{}, err
	}
	if q.Do == rpc.ExecDoInvoke && q.Invoke != nil {
		order, err := e.orderOf(q.Instance)
		if err != nil {
			return rpc.ExecAnswer{}, err
		}
		got, err := invoke.Do(ctx, q.Instance, &order, q.Invoke, e.deps.router.Reserve)
		return rpc.ExecAnswer{Invoked: got}, err
	}
	if q.Do == rpc.ExecDoProfile && q.Profile != nil {
		r, err := e.deps.profiles.Step(q.Profile, q.Owner)
		return rpc.ExecAnswer{Profile: r}, err
	}
	return e.deps.sessions.Step(ctx, q)
}

// instance finds an instance.
func (e *Engine) instance(id wire.InstanceID) (*supervise.Instance, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if in := e.instances[id]; in != nil {
		return in, nil
	}
	return nil, fmt.Errorf("%w: %q", state.ErrNoInstance, id)
}

// orderOf is what an instance that is here is to run.
func (e *Engine) orderOf(id wire.InstanceID) (wire.Order, error) {
	in, err := e.instance(id)
	if err != nil {
		return wire.Order{}, err
	}
	return in.Goal().Order, nil
}

// beside runs a function until it returns, once prepare was called without an error; its
// context is done when this engine ends. prepare may be nil.
func (e *Engine) beside(prepare func() error, run func(context.Context)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.spawn == nil || e.halting {
		return state.ErrStopped
	}
	if prepare != nil {
		if err := prepare(); err != nil {
			return err
		}
	}
	e.spawn(run)
	return nil
}
