package sessions

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime/session"
	"github.com/verge-edge/verge/internal/runtime/workdir"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Bounds of the sessions of a worker.
const (
	maxSessions         = 16 // that run
	maxInstanceSessions = 4  // of them in one instance
	maxKeptSessions     = 32 // with those that have ended and may still be asked
)

// Instance is what sessions need of one.
type Instance interface {
	// Running is what is known of it while it has a task, or why it has none.
	Running() (state.Snapshot, error)
	// Environment of what runs, without its secrets.
	Environment(s *state.Snapshot) ([]string, error)
	// Enter begins a copy into it, whose context ends with it; leave is to be called when
	// nothing more is written.
	Enter(ctx context.Context, s *state.Snapshot) (into context.Context, leave func(), err error)
	// Layout is where its files are, Volumes those that it has.
	Layout() state.Layout
	Volumes(o *wire.Order) ([]workdir.Volume, error)
}

// Options of Sessions.
type Options struct {
	Worker string
	// Find finds an instance, with state.ErrNoInstance where it is not here.
	Find func(wire.InstanceID) (Instance, error)
	// Start runs a function until it returns, once prepare was called without an error; its
	// context is done when the engine ends.
	Start func(prepare func() error, run func(context.Context)) error
	// EndExec ends what a session has left.
	EndExec func(ctx context.Context, session string) error
	Log     *slog.Logger
}

// Sessions are commands, connections and copies in instances, which somebody has opened.
type Sessions struct {
	o Options

	mu  sync.Mutex
	all map[string]*execSession // by id
}

// New has none.
func New(o Options) *Sessions {
	return &Sessions{o: o, all: map[string]*execSession{}}
}

// execSession is a session and whose it is.
type execSession struct {
	*session.Session
	id, owner, key string
	instance       wire.InstanceID
}

// Step takes one step of a session: rpc.ExecAsk says which.
func (x *Sessions) Step(ctx context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error) {
	if q.Do == rpc.ExecDoStart {
		id, err := x.start(q)
		return rpc.ExecAnswer{Session: id}, err
	}
	s, err := x.find(q)
	if err != nil {
		return rpc.ExecAnswer{}, err
	}
	switch {
	case q.Do == rpc.ExecDoInput && q.Input != nil:
		taken, err := s.Input(ctx, *q.Input)
		return rpc.ExecAnswer{Taken: taken}, err
	case q.Do == rpc.ExecDoOutput && q.Output != nil:
		out, err := s.Output(ctx, *q.Output)
		return rpc.ExecAnswer{Output: &out}, err
	case q.Do == rpc.ExecDoEnd:
		s.End("it was ended by who had started it")
		return rpc.ExecAnswer{}, nil
	}
	return rpc.ExecAnswer{}, fmt.Errorf("%w: a session has no step %q with that", state.ErrBadQuery, q.Do)
}

// find returns the session of a step. For other owners and in other instances it does not exist,
// since those decided whether the requester may continue.
func (x *Sessions) find(q rpc.ExecAsk) (*execSession, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.all[q.Session]; s != nil && s.owner == q.Owner && s.instance == q.Instance {
		return s, nil
	}
	return nil, wire.Problemf(http.StatusNotFound, rpc.CodeNoSession, "start another", "there is no such session",
		"it was never there, has ended and was not asked for %s, or its worker's engine was started again",
		session.DefaultIdle)
}

// start starts a session, or finds the one that was started by the same
// question before.
func (x *Sessions) start(q rpc.ExecAsk) (id string, err error) {
	key, open, err := x.opener(q)
	if err != nil {
		return "", err
	}
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
		return "", wire.Problemf(http.StatusTooManyRequests, "too-many-sessions", remedy, "too many sessions",
			"%d run in %s, which is the most", inInstance, q.Instance)
	case running >= maxSessions, len(x.all) >= maxKeptSessions:
		return "", wire.Problemf(http.StatusTooManyRequests, "too-many-sessions", remedy, "too many sessions",
			"%d run on worker %s, which is the most", running, x.o.Worker)
	}
	s := &execSession{id: wire.NewID(), owner: q.Owner, key: key, instance: q.Instance}
	what, err := open(s)
	if err != nil {
		return "", err
	}
	x.all[s.id] = s
	x.o.Log.Info("a session in an instance begins", "instance", s.instance, "who", s.owner, "what", what, "session",
		s.id)
	return s.id, nil
}

// opener is how the session that is asked for is opened; what it returns is for the
// log.
func (x *Sessions) opener(q rpc.ExecAsk) (key string, open func(*execSession) (what string, err error), err error) {
	switch {
	case q.Start != nil:
		return q.Start.Key, func(s *execSession) (string, error) {
			err := x.openCommand(s, q.Start)
			if err != nil {
				return "", err
			}
			return "run " + q.Start.Command[0], nil
		}, nil
	case q.Forward != nil:
		return q.Forward.Key, func(s *execSession) (string, error) { return x.openForward(s, q.Forward) }, nil
	case q.Copy != nil:
		return q.Copy.Key, func(s *execSession) (string, error) { return x.openCopy(s, q.Copy) }, nil
	}
	return "", nil, fmt.Errorf("%w: a session without a kind", state.ErrBadQuery)
}

// openCommand makes a session of a program and lets it run.
func (x *Sessions) openCommand(s *execSession, q *rpc.ExecStart) error {
	if len(q.Command) == 0 || q.Command[0] == "" {
		return wire.Problemf(http.StatusUnprocessableEntity, "no-command", "verge exec instance/NAME -- COMMAND",
			"there is nothing to run", "the command is empty")
	}
	in, err := x.o.Find(s.instance)
	if err != nil {
		return err
	}
	snap, err := in.Running()
	if err != nil {
		return err
	}
	env, err := in.Environment(&snap)
	if err != nil {
		return err
	}
	task := snap.Task
	o := session.Options{Exec: task.Exec, Command: q.Command, Env: append(env, state.EnvExec+"="+s.id), Stdin: q.Stdin,
		Terminal: q.Terminal}
	return x.run(s, o, func(ctx context.Context) {
		if task.Handle().Cgroup != "" {
			return
		}
		// What left both its session and its parent is found by its mark alone.
		if err := x.o.EndExec(ctx, s.id); err != nil {
			x.o.Log.Warn("processes of a session are left", "session", s.id, "error", err)
		}
	})
}

// run runs a session, then after.
func (x *Sessions) run(s *execSession, o session.Options, after func(ctx context.Context)) error {
	o.Over = func() { x.forget(s.id) }
	return x.o.Start(func() (err error) {
		if s.Session, err = session.New(o); err != nil {
			return fmt.Errorf("session in %s: %w", s.instance, err)
		}
		return nil
	}, func(ctx context.Context) {
		s.Run(ctx)
		after(context.WithoutCancel(ctx))
	})
}

// Count is how many there are.
func (x *Sessions) Count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.all)
}

func (x *Sessions) forget(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.all, id)
}
