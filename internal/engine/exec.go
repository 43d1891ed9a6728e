package engine

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/verge-edge/verge/internal/engine/environment"
	"github.com/verge-edge/verge/internal/engine/plan"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/session"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of the sessions of a worker.
const (
	maxSessions         = 16 // that run
	maxInstanceSessions = 4  // of them in one instance
	maxKeptSessions     = 32 // with those that have ended and may still be asked
	maxExecBytes        = 1 << 20
)

// sessions are those of an engine.
type sessions struct {
	mu  sync.Mutex
	all map[string]*execSession // by id
}

// execSession is a session and whose it is.
type execSession struct {
	*session.Session
	id, owner, key string
	instance       wire.InstanceID
}

// Exec takes one step of a session: wire.ExecAsk says which.
func (e *Engine) Exec(ctx context.Context, q wire.ExecAsk) (wire.ExecAnswer, error) {
	if err := e.wait(ctx); err != nil {
		return wire.ExecAnswer{}, err
	}
	if q.Do == wire.ExecDoStart {
		id, err := e.startSession(q)
		return wire.ExecAnswer{Session: id}, err
	}
	if q.Do == wire.ExecDoInvoke && q.Invoke != nil {
		got, err := e.invoke(ctx, q.Instance, q.Invoke)
		return wire.ExecAnswer{Invoked: got}, err
	}
	if q.Do == wire.ExecDoProfile && q.Profile != nil {
		r, err := e.profile(q.Profile, q.Owner)
		return wire.ExecAnswer{Profile: r}, err
	}
	s, err := e.sessions.find(q)
	if err != nil {
		return wire.ExecAnswer{}, err
	}
	switch {
	case q.Do == wire.ExecDoInput && q.Input != nil:
		taken, err := s.Input(ctx, *q.Input)
		return wire.ExecAnswer{Taken: taken}, err
	case q.Do == wire.ExecDoOutput && q.Output != nil:
		out, err := s.Output(ctx, *q.Output)
		return wire.ExecAnswer{Output: &out}, err
	case q.Do == wire.ExecDoEnd:
		s.End("it was ended by who had started it")
		return wire.ExecAnswer{}, nil
	}
	return wire.ExecAnswer{}, fmt.Errorf("%w: a session has no step %q with that", state.ErrBadQuery, q.Do)
}

// find returns the session that a step is of. Another owner's does not exist, nor
// one in another instance: whether who asks may go on was decided by that.
func (x *sessions) find(q wire.ExecAsk) (*execSession, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.all[q.Session]; s != nil && s.owner == q.Owner && s.instance == q.Instance {
		return s, nil
	}
	return nil, wire.Problemf(http.StatusNotFound, wire.CodeNoSession, "start another", "there is no such session",
		"it was never there, has ended and was not asked for %s, or its worker's engine was started again", session.DefaultIdle)
}

// startSession starts a session, or finds the one that was started by the same
// question before.
func (e *Engine) startSession(q wire.ExecAsk) (id string, err error) {
	key, open, err := e.opener(q)
	if err != nil {
		return "", err
	}
	x := &e.sessions
	x.mu.Lock()
	defer x.mu.Unlock()
	running, inInstance := 0, 0
	for _, s := range x.all {
		if key != "" && s.owner == q.Owner && s.key == key && s.instance == q.Instance {
			return s.id, nil
		}
		if s.Ended() {
			continue
		}
		running++
		if s.instance == q.Instance {
			inInstance++
		}
	}
	const remedy = "end one of them, or wait until it ends"
	switch {
	case inInstance >= maxInstanceSessions:
		return "", wire.Problemf(http.StatusTooManyRequests, "too-many-sessions", remedy, "too many sessions", "%d run in %s, which is the most", inInstance, q.Instance)
	case running >= maxSessions, len(x.all) >= maxKeptSessions:
		return "", wire.Problemf(http.StatusTooManyRequests, "too-many-sessions", remedy, "too many sessions", "%d run on worker %s, which is the most", running, e.opts.Config.Worker)
	}
	s := &execSession{id: wire.NewID(), owner: q.Owner, key: key, instance: q.Instance}
	what, err := open(s)
	if err != nil {
		return "", err
	}
	if x.all == nil {
		x.all = map[string]*execSession{}
	}
	x.all[s.id] = s
	e.log.Info("a session in an instance begins", "instance", s.instance, "who", s.owner, "what", what, "session", s.id)
	return s.id, nil
}

// opener is how the session that is asked for is opened; what it returns is for the
// log.
func (e *Engine) opener(q wire.ExecAsk) (key string, open func(*execSession) (what string, err error), err error) {
	switch {
	case q.Start != nil:
		return q.Start.Key, func(s *execSession) (string, error) {
			err := e.openSession(s, q.Start)
			if err != nil {
				return "", err
			}
			return "run " + q.Start.Command[0], nil
		}, nil
	case q.Forward != nil:
		return q.Forward.Key, func(s *execSession) (string, error) { return e.openForward(s, q.Forward) }, nil
	case q.Copy != nil:
		return q.Copy.Key, func(s *execSession) (string, error) { return e.openCopy(s, q.Copy) }, nil
	}
	return "", nil, fmt.Errorf("%w: a session of nothing", state.ErrBadQuery)
}

// instance finds an instance.
func (e *Engine) instance(id wire.InstanceID) (*instance, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if in := e.instances[id]; in != nil {
		return in, nil
	}
	return nil, fmt.Errorf("%w: %q", state.ErrNoInstance, id)
}

// openSession makes a session of a program and lets it run.
func (e *Engine) openSession(s *execSession, q *wire.ExecStart) error {
	if len(q.Command) == 0 || q.Command[0] == "" {
		return wire.Problemf(http.StatusUnprocessableEntity, "no-command", "verge exec instance/NAME -- COMMAND", "there is nothing to run", "the command is empty")
	}
	in, err := e.instance(s.instance)
	if err != nil {
		return err
	}
	task, env, err := in.aside()
	if err != nil {
		return err
	}
	o := session.Options{Exec: task.Exec, Command: q.Command, Env: append(env, state.EnvExec+"="+s.id), Stdin: q.Stdin, Terminal: q.Terminal}
	return e.runSession(s, o, func(ctx context.Context) {
		if task.Handle().Cgroup != "" {
			return
		}
		// What left both its session and its parent is found by its mark alone.
		if err := e.kit.orphans.EndExec(ctx, s.id); err != nil {
			e.log.Warn("processes of a session are left", "session", s.id, "error", err)
		}
	})
}

// runSession lets a session run, and after it what is given.
func (e *Engine) runSession(s *execSession, o session.Options, after func(ctx context.Context)) (err error) {
	o.Over = func() { e.sessions.forget(s.id) }
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.spawn == nil || e.halting {
		return state.ErrStopped
	}
	if s.Session, err = session.New(o); err != nil {
		return fmt.Errorf("session in %s: %w", s.instance, err)
	}
	e.spawn(func(ctx context.Context) {
		s.Run(ctx)
		after(context.WithoutCancel(ctx))
	})
	return nil
}

// running is what is known of an instance that has a task now.
func (in *instance) running() (snapshot, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := in.state
	if s.task == nil {
		return s, in.notRunning(&s)
	}
	return s, nil
}

// runningTask is the task that the instance has now, nil for none.
func (in *instance) runningTask() runtime.Task {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.state.task
}

// notRunning says why an instance has no task; in.mu is held.
func (in *instance) notRunning(s *snapshot) error {
	if in.goal.Kind == plan.Stop && in.goal.Order.Volumes != nil {
		return wire.Problemf(http.StatusConflict, "volume-busy", "try again when it runs: verge describe instance/"+in.id, "the instance does not run now", "%s is stopped while its volumes are copied (%s)", in.id, in.goal.Order.Volumes.Do)
	}
	return wire.Problemf(http.StatusConflict, "not-running", "verge describe instance/"+in.id, "the instance does not run now", "%s is %s on its worker", in.id, s.phase)
}

// aside is what a command beside the instance needs: its task and its
// environment.
func (in *instance) aside() (runtime.Task, []string, error) {
	s, err := in.running()
	if err != nil {
		return nil, nil, err
	}
	around, err := in.surroundings(s)
	if err != nil {
		return nil, nil, err
	}
	_, vars, err := environment.Resolve(&s.run, around)
	return s.task, environment.List(vars), err
}

// count is how many there are.
func (x *sessions) count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.all)
}

func (x *sessions) forget(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.all, id)
}
