package supervise

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/verge-edge/verge/internal/engine/environment"
	"github.com/verge-edge/verge/internal/engine/plan"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/workdir"
	"github.com/verge-edge/verge/internal/wire"
)

// Running is what is known of an instance that has a task, or why it has none.
func (in *Instance) Running() (state.Snapshot, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := in.state
	if s.Task == nil {
		return s, in.notRunning(&s)
	}
	return s, nil
}

// Task is the task that the instance has now, nil for none.
func (in *Instance) Task() runtime.Task {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.state.Task
}

// notRunning says why an instance has no task; in.mu is held.
func (in *Instance) notRunning(s *state.Snapshot) error {
	if in.goal.Kind == plan.Stop && in.goal.Order.Volumes != nil {
		return wire.Problemf(http.StatusConflict, "volume-busy",
			"try again when it runs: verge describe instance/"+in.ID, "the instance does not run now",
			"%s is stopped while its volumes are copied (%s)", in.ID, in.goal.Order.Volumes.Do)
	}
	return wire.Problemf(http.StatusConflict, "not-running", "verge describe instance/"+in.ID,
		"the instance does not run now", "%s is %s on its worker", in.ID, s.Phase)
}

// Environment is that of what runs, without its secrets.
func (in *Instance) Environment(s *state.Snapshot) ([]string, error) {
	around, err := in.surroundings(*s)
	if err != nil {
		return nil, err
	}
	_, vars, err := environment.Resolve(&s.Order, around)
	return environment.List(vars), err
}

// Layout is where its files are.
func (in *Instance) Layout() state.Layout { return in.layout }

// Volumes are those of an order.
func (in *Instance) Volumes(o *wire.Order) ([]workdir.Volume, error) { return in.deps.Volumes.Of(o) }

// Enter begins a copy into the instance; its context ends with the copy. It is refused if the task
// that the copy is for has ended. leave is to be called when nothing more is written.
func (in *Instance) Enter(ctx context.Context, s *state.Snapshot) (into context.Context, leave func(), err error) {
	into, cancel := context.WithCancelCause(ctx)
	c := &copying{cancel: cancel, left: make(chan struct{})}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.state.Task == nil || in.state.Task != s.Task {
		cancel(nil)
		return nil, nil, in.notRunning(&in.state)
	}
	if in.copies == nil {
		in.copies = map[*copying]struct{}{}
	}
	in.copies[c] = struct{}{}
	return into, func() {
		in.mu.Lock()
		delete(in.copies, c)
		in.mu.Unlock()
		cancel(nil)
		close(c.left)
	}, nil
}

// copying is a running copy into an instance.
type copying struct {
	cancel context.CancelCauseFunc
	left   chan struct{}
}

// endCopies ends the copies into an instance without a task, and returns when none of them writes.
// No other can begin before the next task.
func (in *Instance) endCopies(why error) {
	in.mu.Lock()
	all := slices.Collect(maps.Keys(in.copies))
	in.mu.Unlock()
	for _, c := range all {
		c.cancel(why)
		<-c.left
	}
}
