package engine

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"time"

	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// exitNotStarted stands for a start that failed, as a shell says it.
const exitNotStarted = 127

// spec is what a driver needs to know of an order besides its command and
// environment; enough to find its task again.
func (in *instance) spec(o *wire.Order) runtime.Spec {
	s := runtime.Spec{ID: in.id, Attempt: in.rec.attempt(), Dir: in.place.work(), LogDir: in.place.log()}
	if o.Spec != nil {
		s.CPUWeight, s.CPULimit = int64(o.Spec.Resources.CPU), int64(o.Spec.Limits.CPU)
		s.MemoryLimit = int64(o.Spec.Limits.Memory)
		if s.MemoryLimit == 0 {
			s.MemoryLimit = int64(o.Spec.Resources.Memory)
		}
	}
	return s
}

// start makes one attempt at starting a task for an order.
func (in *instance) start(ctx context.Context, o wire.Order) {
	if !sameRun(&in.rec.Order, &o) || in.rec.Phase == wire.PhaseStopped {
		in.rec = record{} // another incarnation counts anew
	}
	in.rec.Order = o // its peers may be others than at the last start
	in.rec.Phase, in.rec.Why, in.rec.Wait, in.due = wire.PhasePending, "", 0, time.Time{}
	if err := in.makeDirs(); err != nil {
		in.kit.problems.set("instance "+in.id, fmt.Errorf("its directories can't be made: %w", err))
		in.hold()
		return
	}
	in.rec.Starts++
	spec, err := in.prepare(&o)
	if err == nil {
		in.rec.Starting = true
		if !in.save() {
			// Without the note a crash would leave a process that no file names.
			in.rec.Starting = false
			in.rec.Starts--
			in.hold()
			return
		}
		in.show(wire.PhasePending, "starting", &o)
		var task runtime.Task
		task, err = in.kit.drivers[runtimeOf(&o)].Start(ctx, spec)
		in.rec.Starting = false
		if err == nil {
			in.rec.Started = time.Now()
			in.since = in.rec.Started
			in.log.Info("started", "pid", task.Handle().PID, "attempt", spec.Attempt)
			in.took(task)
			return
		}
		if ctx.Err() != nil {
			// Cut short by our own end: the attempt does not count.
			in.rec.Starts--
			in.save()
			return
		}
	}
	in.failed(err)
}

// hold puts a start off that the worker, and not the instance, is to blame for.
func (in *instance) hold() {
	in.rec.Why = "waiting until the worker can write to its disk"
	in.due = time.Now().Add(retryAfter)
}

// makeDirs makes the directories of the instance.
func (in *instance) makeDirs() error {
	// What the last run left in its temporary directory is nobody's now.
	if err := os.RemoveAll(in.place.tmp()); err != nil {
		return err
	}
	for _, dir := range []string{in.place.work(), in.place.tmp(), in.place.log()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// prepare gives a start its ports and environment.
func (in *instance) prepare(o *wire.Order) (runtime.Spec, error) {
	ports, err := in.kit.ports.give(in.id, o.Spec.Ports, in.rec.Ports)
	if err != nil {
		return runtime.Spec{}, err
	}
	in.rec.Ports = ports
	around := surroundings{
		path: in.kit.config.Path, cluster: in.kit.config.Cluster, worker: in.kit.config.Worker,
		engine: in.kit.mark, work: in.place.work(), tmp: in.place.tmp(), ports: ports,
		addrs: make(map[string]map[string]string, len(o.Peers)),
	}
	for service, list := range o.Peers {
		if around.addrs[service], err = in.kit.router.Reserve(o.App, service, list); err != nil {
			return runtime.Spec{}, fmt.Errorf("address of service %s on this worker: %w", service, err)
		}
	}
	spec := in.spec(o)
	spec.Command, spec.Env, err = resolve(o, around)
	return spec, err
}

// took notes a task that was started or found.
func (in *instance) took(task runtime.Task) {
	h := task.Handle()
	in.task, in.rec.Handle, in.unsure = task, &h, false
	in.rec.Phase, in.rec.Why, in.why = wire.PhaseRunning, "", ""
	in.ready, in.draining = false, false
	in.save()
	in.show(wire.PhaseRunning, "", &in.rec.Order)
}

// watch sees to a running task until it ends, or something else is to be done
// about it, or ctx is done.
func (in *instance) watch(ctx context.Context) {
	in.draining = false // it may have been to be stopped, which failed
	c, err := checkOf(in.rec.Order.Spec, in.rec.Ports)
	if err != nil {
		in.tell(verdict{why: err.Error()})
	}
	verdicts := make(chan verdict)
	ends, finish := in.await(ctx, func(ctx context.Context) {
		if c.port == 0 {
			return
		}
		probing(ctx, in.kit.prober, c, func(v verdict) {
			select {
			case verdicts <- v:
			case <-ctx.Done():
			}
		})
	})
	defer finish()
	if c.port == 0 && err == nil {
		in.tell(verdict{ready: true})
	}
	for {
		retry, stop := in.retry()
		select {
		case <-ctx.Done():
		case exit := <-ends:
			in.exited(exit)
		case v := <-verdicts:
			stop()
			in.tell(v)
			continue
		case <-retry:
			in.save()
			continue
		case <-in.wake:
			stop()
			if next(in.facts(), in.currentGoal()) == stepWatch {
				continue
			}
		}
		stop()
		return
	}
}

// await runs two goroutines beside the supervisor: one that waits for the end
// of the task and hands it out, and beside. finish ends both and waits for them.
func (in *instance) await(ctx context.Context, beside func(context.Context)) (ends <-chan wire.Exit, finish func()) {
	ctx, cancel := context.WithCancel(ctx)
	exits, task := make(chan wire.Exit, 1), in.task
	done := make(chan struct{})
	go func() {
		defer close(done)
		beside(ctx)
	}()
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		exit, err := task.Wait(ctx)
		if err == nil {
			exits <- exit
		} else if ctx.Err() == nil {
			in.log.Error("can't wait for the process", "error", err)
			exits <- wire.Exit{Code: -1, Unknown: true, At: time.Now()}
		}
	}()
	return exits, func() {
		cancel()
		<-done
		<-waited
	}
}

// tell shows a change of readiness and lets the router know.
func (in *instance) tell(v verdict) {
	was := in.ready
	in.ready, in.why = v.ready, v.why
	if !v.ready {
		in.why = "not ready: " + v.why
	}
	in.show(wire.PhaseRunning, in.why, &in.rec.Order)
	if was != v.ready {
		in.kit.router.LocalChanged()
	}
}

// exited handles a task that ended without being asked to.
func (in *instance) exited(exit wire.Exit) {
	exit.Attempt = in.rec.attempt()
	in.rec.LastExit = &exit
	in.log.Info("exited", "code", exit.Code, "signal", exit.Signal, "oom", exit.OOM)
	act := in.decide(exit, time.Since(in.since))
	in.over(act, act.Why)
}

// lost handles a task that ended while no engine was there.
func (in *instance) lost() {
	exit := wire.Exit{Code: -1, Unknown: true, At: time.Now(), Attempt: in.rec.attempt()}
	rebooted := in.rec.Handle.Boot != in.kit.boot
	in.rec.LastExit = &exit
	in.log.Info("ended while no engine was there", "rebooted", rebooted)
	// Its children may have outlived it, but not a reboot.
	in.unsure = !rebooted
	if rebooted && in.rec.Order.Spec.Restart.Policy != "never" {
		// The machine stopped, not the instance: it starts again at once.
		in.over(life.Action{Restart: true}, "the machine was started again")
		return
	}
	act := in.decide(exit, max(time.Since(in.rec.Started), 0))
	in.over(act, act.Why)
}

// failed handles a start that did not come about.
func (in *instance) failed(err error) {
	in.log.Info("not started", "error", err)
	act := in.decide(wire.Exit{Code: exitNotStarted}, 0)
	why := "not started: " + err.Error()
	switch {
	case act.Restart:
		why += fmt.Sprintf("; trying again in %s", act.After.Round(time.Millisecond))
	case act.GiveUp:
		why += fmt.Sprintf("; given up here after %d tries in a row", act.InARow)
	default:
		why += "; the restart policy is " + in.rec.Order.Spec.Restart.Policy
	}
	in.over(act, why)
}

// decide asks what is to be done about an exit.
func (in *instance) decide(exit wire.Exit, ranFor time.Duration) life.Action {
	return in.kit.restart(in.rec.Order.Spec.Restart, exit, in.rec.Failures, ranFor, seed(in.id, in.rec.Starts))
}

// over ends an attempt: what follows is written together with the exit before
// anything is done about it.
func (in *instance) over(act life.Action, why string) {
	task := in.task
	in.task, in.ready, in.draining = nil, false, false
	in.rec.Handle, in.rec.Failures, in.rec.Why = nil, act.InARow, why
	in.rec.Phase, in.rec.Wait, in.due = wire.PhaseExited, 0, time.Time{}
	if act.Restart {
		in.rec.Phase, in.rec.Wait = wire.PhasePending, act.After
		in.due = time.Now().Add(act.After)
	}
	in.save()
	in.cleanup(task)
	in.show(in.rec.Phase, in.rec.Why, &in.rec.Order)
	in.kit.router.LocalChanged() // it asks for what is shown
}

// cleanup removes what the driver made for a task that has ended, and bounds
// what it has written.
func (in *instance) cleanup(task runtime.Task) {
	// The clock looks at the logs of what runs, and may never have met this one.
	defer in.kit.rotate(in.id)
	if task == nil {
		return
	}
	if err := task.Cleanup(); err != nil {
		in.log.Warn("clean up after the process", "error", err)
	}
}

// seed makes the jitter of a restart a function of what restarts.
func seed(id wire.InstanceID, starts int) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%d", id, starts) // a hash never fails
	return h.Sum64()
}
