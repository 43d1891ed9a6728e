package engine

import (
	"context"
	"fmt"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/supervise"
	"github.com/verge-edge/verge/internal/wire"
)

// Exec takes one step of a session, sends a request to an instance, or takes a step of a
// profile: wire.ExecAsk says which.
func (e *Engine) Exec(ctx context.Context, q wire.ExecAsk) (wire.ExecAnswer, error) {
	if err := e.wait(ctx); err != nil {
		return wire.ExecAnswer{}, err
	}
	if q.Do == wire.ExecDoInvoke && q.Invoke != nil {
		got, err := e.deps.requests.Invoke(ctx, q.Instance, q.Invoke)
		return wire.ExecAnswer{Invoked: got}, err
	}
	if q.Do == wire.ExecDoProfile && q.Profile != nil {
		r, err := e.deps.requests.Profile(q.Profile, q.Owner)
		return wire.ExecAnswer{Profile: r}, err
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
func (e *Engine) orderOf(id wire.InstanceID) (wire.Order, bool) {
	in, err := e.instance(id)
	if err != nil {
		return wire.Order{}, false
	}
	return in.Goal().Order, true
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
