package supervise

import (
	"context"
	"errors"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/plan"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of an orderly end.
const (
	// leastGrace remains for the process after its signal, however long its
	// connections took to end.
	leastGrace = time.Second
	KillWithin = 10 * time.Second
)

// stop ends the task: no new connections, then the end of the open ones, then the signal, then
// force. It returns when the task has ended, when it could not be ended (to be called again), or
// when ctx is done (the successor continues).
func (in *Instance) stop(ctx context.Context) {
	rule := in.stopRule()
	deadline := time.Now().Add(rule.Grace.Std())
	again := in.life.traffic == draining // an orderly end was tried before
	was, sleeps := closed, false
	if !again {
		why := "draining"
		if g := in.Goal(); g.Kind == plan.Sleep {
			// A request that comes now may wait for it to be started again.
			sleeps = true
			if state.SameRun(&in.rec.Order, &g.Order) {
				in.rec.Order = g.Order
			}
			why = "no request for " + g.Order.Sleep.Idle.String() + ": it goes to sleep"
		}
		was = in.life.drain(sleeps)
		in.display(reason{text: why})
		in.deps.Changed()
	}

	idle := make(chan struct{})
	ends, finish := in.await(ctx, func(ctx context.Context) {
		defer close(idle)
		if again {
			return
		}
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		if err := in.deps.Router.WaitIdle(ctx, in.ID); err != nil && ctx.Err() == nil {
			in.log.Warn("wait for its connections", "error", err)
		}
	})
	defer finish()
	if again {
		if exit, ok := in.kill(ctx, ends); ok {
			in.stopped(exit)
		}
		return
	}
	for waits := true; waits; {
		select {
		case <-ctx.Done():
			return
		case exit := <-ends:
			in.stopped(exit)
			return
		case <-in.wake:
			// A request that came meanwhile waits for the instance; waiting for that request as
			// well would never end.
			if sleeps && plan.Next(in.facts(), in.Goal()) == plan.StepWatch {
				in.life.resume(was)
				in.display(in.why)
				in.deps.Changed()
				return
			}
		case <-idle:
			waits = false
		case <-in.deps.Force:
			waits = false
		}
	}
	if exit, ok := in.quit(ctx, ends, rule, deadline); ok {
		in.stopped(exit)
	}
}

// stopRule of the task, with every default filled in.
func (in *Instance) stopRule() api.Stop {
	rule := in.rec.Order.Spec.Stop
	if rule.Signal == "" {
		rule.Signal = "TERM"
	}
	if rule.Grace <= 0 {
		rule.Grace = api.DefaultGrace
	}
	return rule
}

// quit signals the task to end and kills it after the deadline; it has a second in any case. It
// returns the exit; ok is false if it could not be ended (to be called again) or ctx is done.
func (in *Instance) quit(ctx context.Context, ends <-chan wire.Exit, rule api.Stop, deadline time.Time) (exit wire.Exit,
	ok bool) {
	if err := in.task.Signal(rule.Signal); err != nil && !errors.Is(err, runtime.ErrGone) {
		in.log.Warn("signal its end", "signal", rule.Signal, "error", err)
	}
	timeout := time.NewTimer(max(time.Until(deadline), leastGrace))
	defer timeout.Stop()
	select {
	case <-ctx.Done():
		return wire.Exit{}, false
	case exit = <-ends:
		return exit, true
	case <-timeout.C:
		in.log.Info("killed: it did not end within its grace", "grace", rule.Grace)
	case <-in.deps.Force:
	}
	return in.kill(ctx, ends)
}

// kill ends the task by force. ok is as that of quit.
func (in *Instance) kill(ctx context.Context, ends <-chan wire.Exit) (exit wire.Exit, ok bool) {
	kctx, cancel := context.WithTimeout(ctx, KillWithin)
	defer cancel()
	err := in.task.Kill(kctx)
	if err == nil {
		select {
		case exit = <-ends:
			return exit, true
		case <-kctx.Done():
			err = kctx.Err()
		}
	}
	if ctx.Err() != nil {
		return wire.Exit{}, false
	}
	in.log.Error("can't be killed", "error", err)
	in.display(reason{text: "can't be killed: " + err.Error()})
	in.pause(ctx, RetryAfter)
	return wire.Exit{}, false
}

// stopped records the end of a task that was asked to end. The goal decides what follows.
func (in *Instance) stopped(exit wire.Exit) {
	exit.Attempt = in.rec.Attempt()
	task := in.task
	in.rec.LastExit, in.rec.Handle = &exit, nil
	in.task = nil
	in.life.ended()
	in.noteUser()
	in.rec.Phase, in.rec.Why, in.rec.Cause, in.rec.Wait = wire.PhasePending, "stopped", "", 0
	in.rec.Failures, in.due = 0, time.Time{}
	if in.Goal().Kind == plan.Stop {
		in.rec.Phase, in.rec.Why = wire.PhaseStopped, ""
	}
	if in.Goal().Kind == plan.Sleep && in.deps.resident(&in.rec.Order) {
		in.saveLater()
	} else {
		in.save()
	}
	in.cleanup(task)
	in.log.Info("stopped", "code", exit.Code, "signal", exit.Signal)
	in.show(in.rec.Phase, in.reason(), &in.rec.Order)
}
