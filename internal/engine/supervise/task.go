package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/environment"
	"github.com/verge-edge/verge/internal/engine/health"
	"github.com/verge-edge/verge/internal/engine/plan"
	"github.com/verge-edge/verge/internal/engine/portpool"
	"github.com/verge-edge/verge/internal/engine/secrets"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/status"
	"github.com/verge-edge/verge/internal/engine/users"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// exitNotStarted stands for a start that failed, as a shell says it.
const exitNotStarted = 127

// manyPlaces is how many requests a function works on at a time where its service sets no bound:
// its memory limit is one.
const manyPlaces = 1000

// spec is what a driver needs to know of an order besides its command and
// environment; enough to find its task again.
func (in *Instance) spec(o *wire.Order) runtime.Spec {
	s := runtime.Spec{ID: in.ID, Attempt: in.rec.Attempt(), Dir: in.layout.Work(), LogDir: in.layout.Log(),
		NetNS: in.net.NetNS, Resolv: in.net.Resolv}
	if o.Spec != nil {
		s.CPUWeight, s.CPULimit = int64(o.Spec.Resources.CPU), int64(o.Spec.Limits.CPU)
		s.MemoryLimit = int64(o.Spec.Limits.Memory)
		if s.MemoryLimit == 0 {
			s.MemoryLimit = int64(o.Spec.Resources.Memory)
		}
	}
	if state.RuntimeOf(o) == api.Container {
		s.Dir = "" // that of the image
		s.Container = &runtime.Container{Image: o.Spec.Image, Pull: o.Spec.Pull, User: o.Spec.User,
			Security: securityOf(o.Spec), Devices: environment.Paths(environment.Devices(o, in.deps.Devices()))}
	}
	if state.RuntimeOf(o) == api.Wasm {
		module := o.Spec.Module
		if !filepath.IsAbs(module) { // an object, of the service's namespace
			module = wire.OrderNamespace(o) + "/" + module
		}
		rules := wire.RequestsOf(o.Spec)
		s.Wasm = &runtime.Wasm{
			Module: module, Files: slices.Sorted(maps.Keys(o.Spec.Files)),
			Concurrency: cmp.Or(rules.Places(), manyPlaces), Timeout: rules.Timeout.Std(),
			Soon: in.life.sleeps(),
		}
	}
	return s
}

// start makes one attempt at starting a task for an order.
func (in *Instance) start(ctx context.Context, o wire.Order) {
	if in.rec.Order.ID != "" && wire.OrderNamespace(&in.rec.Order) != wire.OrderNamespace(&o) && !in.remove(ctx) {
		return // what another namespace has left is not for this one
	}
	if !state.SameRun(&in.rec.Order, &o) || in.rec.Phase == wire.PhaseStopped {
		in.rec = in.rec.Next()
	}
	in.deps.Board.Awaited(in.ID)
	in.tried = time.Now()
	in.rec.Order = o // its peers may be others than at the last start
	in.rec.Phase, in.rec.Wait, in.due = wire.PhasePending, 0, time.Time{}
	in.rec.Why, in.rec.Cause = "", ""
	held := in.held(&o) // before they are opened: what comes meanwhile is exchanged
	known, err := in.deps.Secrets.OpenOrder(&o)
	switch {
	case errors.Is(err, secrets.ErrNoKey): // nobody says when it can be read again
		in.rec.Why = err.Error()
		in.wait(&o, "its worker cannot open secrets", func() { in.pause(ctx, RetryAfter) })
		return
	case err != nil:
		// Nobody's failure: it starts when it comes, which wakes this supervisor.
		in.rec.Why = err.Error()
		in.wait(&o, "a secret that it needs is not there yet", func() { in.rest(ctx) })
		return
	}
	if ready, err := in.fetch(ctx, &o, false); err != nil {
		in.rec.Starts++
		in.deps.Counters.Failed.Add(1)
		in.trouble = "what it is made of could not be fetched"
		in.failed(err)
		return
	} else if !ready {
		return
	}
	attached := in.attach(&o)
	if attached != nil && in.deps.Network.Waits(attached) {
		in.rec.Why = attached.Error()
		in.wait(&o, "it waits for the service network", func() { in.rest(ctx) })
		return
	}
	user, nobody := in.userOf(&o)
	if nobody == nil { // else they would be root's
		in.deps.Problems.Set("user of "+in.ID, nil)
		if err := in.makeDirs(&o, user); err != nil {
			in.deps.Problems.Set("instance "+in.ID, fmt.Errorf("its directories can't be made: %w", err))
			in.hold()
			return
		}
	}
	if in.life.start() && in.rec.Starts > 0 {
		in.rec.Woken++
	}
	in.rec.Starts++
	in.rec.Up, in.env = false, nil
	in.rec.Secrets, in.rotateAt = held, time.Time{}
	spec, err := runtime.Spec{}, cmp.Or(attached, nobody)
	if err == nil {
		spec, err = in.prepare(&o, known, user)
	}
	if err == nil {
		// What is part of this process ends with it, and leaves nothing to be found.
		resident := in.deps.resident(&o)
		in.rec.Starting = !resident
		if !resident && !in.save() {
			// Without the note a crash would leave a process that no file names.
			in.rec.Starting = false
			in.rec.Starts--
			in.hold()
			return
		}
		var task runtime.Task
		task, err = in.launch(ctx, &o, spec)
		in.rec.Starting = false
		if err == nil {
			in.rec.Started, in.rec.Clock = time.Now(), in.deps.Uptime()
			in.since = in.rec.Started
			in.life.started()
			in.deps.Counters.Starts.Add(1)
			in.log.Info("started", "pid", task.Handle().PID, "attempt", spec.Attempt)
			in.adoptTask(task)
			return
		}
		if ctx.Err() != nil {
			// Cut short by our own end: the attempt does not count.
			in.rec.Starts--
			in.save()
			return
		}
		if errors.Is(err, runtime.ErrAway) {
			in.rec.Starts--
			in.holdFor(err)
			in.save()
			return
		}
	}
	in.deps.Counters.Failed.Add(1)
	in.trouble = "its program could not be started"
	in.failed(err)
}

// showLaunch is how long a driver may take before it is shown that it starts an instance. Most
// take less, and each change costs all tiers some.
const showLaunch = 100 * time.Millisecond

// launch lets the driver of an order start a task.
func (in *Instance) launch(ctx context.Context, o *wire.Order, spec runtime.Spec) (task runtime.Task, err error) {
	done := make(chan struct{})
	defer in.expect(o, false)
	go func() {
		defer close(done)
		task, err = in.deps.Drivers[state.RuntimeOf(o)].Start(ctx, spec)
	}()
	if in.refresh() {
		in.deps.Released()
	}
	late := time.NewTimer(showLaunch)
	defer late.Stop()
	select {
	case <-done:
		return task, err
	case <-late.C:
		in.show(wire.PhasePending, reason{text: starting}, o)
	}
	<-done
	return task, err
}

// expect tells the driver of an order whether a request may start the instance, and the others that
// none does: the order before may have had another one.
func (in *Instance) expect(o *wire.Order, soon bool) {
	for kind, d := range in.deps.Drivers {
		if d, ok := d.(runtime.Expecter); ok {
			d.Expect(in.ID, soon && kind == state.RuntimeOf(o))
		}
	}
}

// wait shows that a start of an order waits, for an unknown time, and waits by rest. stuck says
// for what, for clients.
func (in *Instance) wait(o *wire.Order, stuck string, rest func()) {
	in.stuck = stuck
	in.show(wire.PhasePending, in.reason(), o)
	in.deps.Changed()
	rest()
	in.stuck = ""
}

// hold puts a start off because of the worker, not of the instance.
func (in *Instance) hold() {
	in.trouble = "its worker cannot write to its disk"
	in.rec.Why = "waiting until the worker can write to its disk"
	in.due = time.Now().Add(RetryAfter)
}

// makeDirs makes the directories that the driver does not, and gives them to the user that the
// instance runs as; nil is the user of this process.
func (in *Instance) makeDirs(o *wire.Order, u *runtime.User) error {
	if in.deps.resident(o) {
		if len(o.Spec.Files) == 0 {
			return nil
		}
		return os.MkdirAll(in.layout.Work(), 0o700)
	}
	// What the last run left in its temporary directory is nobody's now.
	if err := os.RemoveAll(in.layout.Tmp()); err != nil {
		return err
	}
	for _, dir := range []string{in.layout.Work(), in.layout.Tmp(), in.layout.Log()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if in.deps.Users == nil || state.Sandboxed(o) {
		return nil
	}
	// It passes through this one, but does not see what the engine has in it.
	if err := os.Chmod(in.layout.Dir, 0o711); err != nil {
		return err
	}
	return errors.Join(users.Chown(in.layout.Work(), u), users.Chown(in.layout.Tmp(), u))
}

// prepare gives a start its ports and environment.
func (in *Instance) prepare(o *wire.Order, known secrets.Values, u *runtime.User) (runtime.Spec, error) {
	ports := portpool.Own(o.Spec.Ports)
	if in.net.NetNS == "" {
		var err error
		if ports, err = in.deps.Ports.Give(in.ID, o.Spec.Ports, in.rec.Ports); err != nil {
			return runtime.Spec{}, err
		}
	}
	in.rec.Ports = ports
	here := in.snap()
	here.Order, here.Ports = *o, ports
	around, err := in.surroundings(here)
	if err != nil {
		return runtime.Spec{}, err
	}
	spec := in.spec(o)
	argv, vars, err := environment.Resolve(o, around)
	if err != nil {
		return runtime.Spec{}, err
	}
	if !in.unmount() {
		return runtime.Spec{}, errors.New("what was mounted for its last run can't be unmounted")
	}
	mounts, volumes, err := in.prepareWorkdir(o, vars, known, u)
	if err != nil {
		return runtime.Spec{}, err
	}
	_, err = known.Fill(o, vars)
	spec.Command, spec.Env = argv, environment.List(vars)
	if u != nil {
		spec.User, spec.View = u, in.view(o, volumes)
	}
	if spec.Wasm != nil && len(o.Spec.Ports) > 0 {
		spec.Wasm.Listen = net.JoinHostPort(environment.ListenAddress(""),
			strconv.Itoa(ports[state.PortName(&o.Spec.Ports[0])]))
	}
	if spec.Container != nil {
		spec.Container.Mounts = mounts
		if len(o.Spec.Command) == 0 {
			spec.Command, spec.Container.Args = nil, argv
		}
	}
	return spec, err
}

// surroundings of an instance as s has it. It may be called by any goroutine.
func (in *Instance) surroundings(s state.Snapshot) (environment.Surroundings, error) {
	o := &s.Order
	around := environment.Surroundings{
		Path: in.deps.Config.Path, Cluster: in.deps.Config.Cluster, Worker: in.deps.Config.Worker,
		Engine: in.deps.Mark, Listen: environment.ListenAddress(s.NetNS), Work: in.layout.Work(), Tmp: in.layout.Tmp(),
		Ports:   s.Ports,
		Objects: in.deps.Objects.URL(wire.OrderNamespace(o), s.ObjectsAddr()),
		Addrs:   make(map[string]map[string]string, len(o.Peers)),
		Devices: in.deps.Devices(),
	}
	for service, list := range o.Peers {
		addrs, err := in.deps.Addrs(o, service, list)
		if err != nil {
			return environment.Surroundings{}, fmt.Errorf("address of service %s on this worker: %w", service, err)
		}
		around.Addrs[service] = addrs
	}
	return around, nil
}

// adoptTask notes a task that was started or found.
func (in *Instance) adoptTask(task runtime.Task) {
	h := task.Handle()
	in.task, in.rec.Handle = task, &h
	in.life.took()
	in.noteUser()
	in.rec.Up = in.rec.Up || in.rec.Order.Spec.Startup == nil
	in.why = reason{}
	if !in.rec.Up {
		in.why.text = starting
	}
	in.rec.Phase, in.rec.Why, in.rec.Cause = in.phase(), "", ""
	if order := &in.rec.Order; in.deps.resident(order) && order.Sleep != nil {
		// Nobody adopts it, and who woke it waits: a successor that reads of no start
		// lets it sleep, as it would let what it reads of.
		in.saveLater()
		if in.rec.Up && health.ReadinessOf(order.Spec) == nil {
			return // it is shown when it is ready, which it is at once
		}
	} else {
		in.save()
	}
	in.display(in.why)
}

// starting is the reason that is shown until the startup check has passed.
const starting = "starting"

// phase of an instance that has a task.
func (in *Instance) phase() wire.Phase {
	if in.rec.Up {
		return wire.PhaseRunning
	}
	return wire.PhasePending
}

// display shows an instance that has a task.
func (in *Instance) display(why reason) { in.show(in.phase(), why, &in.rec.Order) }

// watch supervises a running task until it ends, another step is due, or ctx is done.
func (in *Instance) watch(ctx context.Context) {
	in.life.watch()
	checks, err := in.checks()
	if err != nil {
		in.tell(health.Result{Kind: health.Readiness, Why: "its checks: " + err.Error()})
	}
	verdicts := make(chan health.Result)
	checking, enough := context.WithCancel(ctx)
	defer enough()
	ends, finish := in.await(ctx, func(ctx context.Context) {
		checks.Run(checking, func(v health.Result) {
			select {
			case verdicts <- v:
			case <-checking.Done():
			case <-ctx.Done():
			}
		})
	})
	defer finish()
	defer enough() // before finish waits for them
	if in.rec.Up && checks.Readiness == nil && err == nil {
		in.tell(health.Result{Kind: health.Readiness, Pass: true})
	}
	in.rotate(ctx)
	for {
		retry, stopRetry := in.retry()
		drowsy, stopDrowsy := in.idleTimer()
		rotate, stopRotate := in.rotation()
		stop := func() { stopRetry(); stopDrowsy(); stopRotate() }
		select {
		case <-ctx.Done():
		case <-rotate:
			stop()
			in.rotate(ctx)
			continue
		case <-drowsy:
			stop()
			if d, ok := in.idleLeft(); ok && d == 0 {
				in.letSleep()
			}
			continue // its goal has changed, which wakes this
		case exit := <-ends:
			in.exited(exit)
		case v := <-verdicts:
			stop()
			if v.Final {
				enough()
				in.condemn(ctx, ends, v.Why)
				return
			}
			in.tell(v)
			if v.Kind == health.Startup && v.Pass && checks.Readiness == nil && err == nil {
				in.tell(health.Result{Kind: health.Readiness, Pass: true})
			}
			continue
		case <-retry:
			in.save()
			continue
		case <-in.wake:
			stop()
			if g := in.Goal(); plan.Next(in.facts(), g) == plan.StepWatch && !in.outdated(g) {
				in.rotate(ctx)
				continue
			}
		}
		stop()
		return
	}
}

// await runs two goroutines beside the supervisor: one waits for the end of the task and passes it
// on, the other runs beside. finish ends both and waits for them.
func (in *Instance) await(ctx context.Context, beside func(context.Context)) (ends <-chan wire.Exit, finish func()) {
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

// tell shows the result of a check, and tells the router.
func (in *Instance) tell(v health.Result) {
	news := false
	switch {
	case v.Kind == health.Liveness: // it lives, which is what was assumed
		return
	case v.Kind == health.Startup && !v.Pass:
		in.why = reason{v.Why, wire.CauseStartup}
	case v.Kind == health.Startup:
		in.why = reason{}
		in.rec.Up, in.rec.Phase = true, wire.PhaseRunning
		in.save()
		in.log.Info("its startup check passed")
	default:
		news, in.why = in.life.probed(v.Pass), reason{}
		if v.Pass {
			in.answered()
		} else {
			in.why = reason{v.Why, wire.CauseReadiness}
		}
	}
	in.display(in.why)
	if news {
		in.deps.Changed()
	}
}

// condemn ends a task that has failed a check for good, by its stop rule but without waiting for
// connections that it does not serve. What follows is decided as after any other exit.
func (in *Instance) condemn(ctx context.Context, ends <-chan wire.Exit, why string) {
	in.log.Info("ended because of a check", "why", why)
	in.life.condemn()
	in.display(reason{text: "being ended: " + why})
	in.deps.Changed()
	rule := in.stopRule()
	exit, ok := in.quit(ctx, ends, rule, time.Now().Add(rule.Grace.Std()))
	if ok {
		exit.Why = why
		in.exited(exit)
	}
}

// exited handles the end of a task that was not asked to end.
func (in *Instance) exited(exit wire.Exit) {
	exit.Attempt = in.rec.Attempt()
	in.rec.LastExit = &exit
	in.trouble = status.Ended(exit)
	in.log.Info("exited", "code", exit.Code, "signal", exit.Signal, "oom", exit.OOM, "why", exit.Why)
	ran := time.Since(in.since)
	if !in.rec.Up {
		ran = 0 // it never ran, however long it took to try
	}
	act := in.decide(exit, ran)
	in.endAttempt(act, reason{act.Why + in.readOnlyHint(exit), wire.CauseExited})
}

// age of the recorded task, by the monotonic clock of the machine where it began in this boot:
// setting the wall clock would make a new task old, so that it sleeps at once and its failures are
// forgotten, or the reverse.
func (in *Instance) age() time.Duration {
	if h := in.rec.Handle; h != nil && h.Boot == in.deps.Boot && in.rec.Clock > 0 {
		return max(in.deps.Uptime()-in.rec.Clock, 0)
	}
	return max(time.Since(in.rec.Started), 0)
}

// lost handles a task that ended while no engine was there.
func (in *Instance) lost() {
	exit := wire.Exit{Code: -1, Unknown: true, At: time.Now(), Attempt: in.rec.Attempt()}
	rebooted := in.rec.Handle.Boot != in.deps.Boot
	in.rec.LastExit = &exit
	in.log.Info("ended while no engine was there", "rebooted", rebooted)
	resident := in.deps.resident(&in.rec.Order)
	// Its children may have outlived it, but not a reboot.
	in.life.lost(!rebooted && !resident)
	if (rebooted || resident) && in.rec.Order.Spec.Restart.Policy != "never" {
		// The machine stopped, or the engine, and not the instance: it starts again at once.
		why := "the machine was started again"
		if !rebooted {
			why = "the worker's engine was started again"
		}
		in.SetAwake(in.rec.Order.Sleep == nil)
		in.endAttempt(life.Action{Restart: true}, reason{text: why})
		return
	}
	ran := in.age()
	if !in.rec.Up {
		ran = 0
	}
	act := in.decide(exit, ran)
	if act.Restart && in.rec.Order.Sleep != nil {
		in.SetAwake(false) // the next request starts it
	}
	in.endAttempt(act, reason{act.Why, wire.CauseExited})
}

// failed handles a start that did not come about.
func (in *Instance) failed(err error) {
	in.log.Info("not started", "error", err)
	act := in.decide(wire.Exit{Code: exitNotStarted}, 0)
	why := "not started: " + err.Error()
	switch {
	case act.Restart:
		why += fmt.Sprintf("; trying again in %s", act.After.Round(time.Millisecond))
	case act.GiveUp:
		why += fmt.Sprintf("; gave up here after %d tries in a row", act.InARow)
	default:
		why += "; the restart policy is " + in.rec.Order.Spec.Restart.Policy
	}
	in.endAttempt(act, reason{text: why})
}

// decide asks what is to be done about an exit.
func (in *Instance) decide(exit wire.Exit, ranFor time.Duration) life.Action {
	return in.deps.Restart(in.rec.Order.Spec.Restart, exit, in.rec.Failures, ranFor, seed(in.ID, in.rec.Starts))
}

// endAttempt ends an attempt: what follows is written together with the exit before
// anything is done about it.
func (in *Instance) endAttempt(act life.Action, why reason) {
	task := in.task
	in.task = nil
	in.life.ended()
	in.noteUser()
	in.rec.Handle, in.rec.Failures, in.rec.Why, in.rec.Cause = nil, act.InARow, why.text, why.cause
	in.rec.Phase, in.rec.Wait, in.due = wire.PhaseExited, 0, time.Time{}
	if act.Restart {
		in.rec.Phase, in.rec.Wait = wire.PhasePending, act.After
		in.due = time.Now().Add(act.After)
	} else if in.rec.Order.Sleep != nil {
		in.SetAwake(false) // whoever woke it was told: the next version begins asleep
	}
	in.save()
	in.cleanup(task)
	in.show(in.rec.Phase, in.reason(), &in.rec.Order)
	in.deps.Changed() // it asks for what is shown
}

// cleanup removes what the driver made for a task that has ended, and bounds
// what it has written.
func (in *Instance) cleanup(task runtime.Task) {
	// The clock looks at the logs of what runs, and may never have met this one.
	defer in.deps.Logs.Rotate(in.ID)
	defer in.unmount()
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
