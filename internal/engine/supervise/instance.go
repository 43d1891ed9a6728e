package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/engine/network"
	"github.com/verge-edge/verge/internal/engine/plan"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/status"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// RetryAfter is the pause after a failure that is not the instance's fault: a full disk, a process
// that cannot be killed.
const RetryAfter = 2 * time.Second

// Instance is one instance with the goroutine that supervises it.
type Instance struct {
	ID     wire.InstanceID
	deps   *Deps
	layout state.Layout
	log    *slog.Logger
	wake   chan struct{} // holds one: the goal has changed

	mu    sync.Mutex // guards below
	goal  plan.Goal
	state state.Snapshot
	// awake: it is to run although its order lets it sleep.
	awake bool
	// copies are running copies into it.
	copies map[*copying]struct{}

	// Only the supervisor's goroutine:
	rec          state.Record
	task         runtime.Task
	life         lifecycle
	since        time.Time          // since when the task runs, monotonic
	tried        time.Time          // when the last try at a start began, monotonic
	due          time.Time          // when to start next, monotonic
	awayFor      time.Duration      // how long the last start was put off, because something was away
	awayReason   string             // what that was, in words
	saveAt       time.Time          // when rec is written (again); monotonic; zero: it is on disk as it should be
	fetchedFor   wire.Order         // the order that was fetched ahead
	fetchProblem string             // why it could not be fetched, "" if it was
	trouble      string             // why its last start failed, for clients
	stuck        string             // what a start waits for, for clients; "" while it waits for nothing
	readySince   time.Time          // since when it is ready, monotonic
	why          reason             // of a running instance
	net          network.Attachment // its part of the service network
	env          []string           // of a running instance that commands are run beside; nil if not known
	hidden       [][]byte           // values of secrets in env
	worked       *wire.VolumeReport // what was done of the work on its volumes; not changed once it is here
	rotateAt     time.Time          // when secret files are tried to be exchanged again, monotonic; zero: not at all
}

// New makes an instance from what is known of it; rec is zero for a new
// one. Its supervisor is run.
func New(k *Deps, id wire.InstanceID, rec state.Record, marked bool) *Instance {
	in := &Instance{
		ID: id, deps: k, rec: rec, wake: make(chan struct{}, 1),
		layout: state.At(k.Dir, id),
		log:    k.Log.With("instance", id),
	}
	left := marked && rec.Handle == nil
	if rec.Boot == k.Boot {
		left = left || rec.Starting
		if rec.Wait > 0 {
			in.due = time.Now().Add(rec.Wait)
		}
	}
	in.life.lost(left)
	// An instance that an earlier engine was starting has no waiting request: that ended with
	// that engine.
	in.awake = rec.Handle != nil && rec.Boot == k.Boot
	k.Ports.Keep(id, rec.Ports)
	in.state = in.snap()
	return in
}

// SetGoal tells the supervisor what should become of its instance.
func (in *Instance) SetGoal(g plan.Goal) {
	in.mu.Lock()
	same := in.goal.Kind == g.Kind && in.goal.Order.Volumes.Same(g.Order.Volumes) && in.goal.Why == g.Why &&
		(in.goal.Order.Sleep == nil) == (g.Order.Sleep == nil) &&
		in.goal.Order.Revision == g.Order.Revision && state.SameRun(&in.goal.Order, &g.Order)
	in.goal = g
	in.mu.Unlock()
	if !same {
		in.Poke()
	}
}

// Poke lets the supervisor look again at what is to be done.
func (in *Instance) Poke() {
	select {
	case in.wake <- struct{}{}:
	default: // it has not seen the last change yet and will see both
	}
}

// Goal is what should become of the instance.
func (in *Instance) Goal() plan.Goal {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.goal
}

// Present is what the next plan needs to know.
func (in *Instance) Present() plan.Present {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.presence()
}

// presence is what an instance holds, and whether it is awake; in.mu is held.
func (in *Instance) presence() plan.Present {
	p := in.goal.Presence(in.state.Busy, in.state.Phase, &in.state.Order)
	p.Awake = in.awake
	if p.Order.Sleep != nil && !p.Awake && !in.state.Busy {
		p.Holds = false
	}
	return p
}

func (in *Instance) snap() state.Snapshot {
	return state.Snapshot{
		Busy:  in.task != nil || in.rec.Handle != nil || in.life.unsure,
		Phase: in.rec.Phase,
		Order: in.rec.Order,
		Task:  in.task,
		Ports: in.rec.Ports,
		Addrs: in.net.Addrs,
		NetNS: in.net.NetNS,
		Host:  in.net.Host,
	}
}

// Run supervises the instance until it is forgotten, left, or ctx is done.
func (in *Instance) Run(ctx context.Context) {
	if in.rec.Handle == nil && !in.life.unsure {
		in.unmount() // a dead engine may not have come to it
	}
	for ctx.Err() == nil {
		g := in.Goal()
		in.renew(g)
		switch plan.Next(in.facts(), g) {
		case plan.StepAdopt:
			in.adopt(ctx)
		case plan.StepSweep:
			in.sweep(ctx)
		case plan.StepStart:
			in.start(ctx, g.Order)
		case plan.StepWait:
			in.show(wire.PhasePending, in.reason(), &in.rec.Order)
			in.pause(ctx, time.Until(in.due))
		case plan.StepWatch:
			in.watch(ctx)
		case plan.StepStop:
			in.stop(ctx)
		case plan.StepRest:
			in.settle(g)
			if g.Kind == plan.Sleep && in.fetchAhead(ctx, &g.Order) {
				continue
			}
			if g.Kind == plan.Stop && in.workOnVolumes(ctx, &g.Order) {
				continue
			}
			in.rest(ctx)
		case plan.StepForget:
			if in.forget(ctx) {
				return
			}
		case plan.StepLeave:
			in.show(wire.PhasePending, in.reason(), &in.rec.Order)
			return
		}
	}
}

// renew takes over another revision of the same program: nothing is restarted, but checks,
// restarts and stops go by it.
func (in *Instance) renew(g plan.Goal) {
	have := &in.rec.Order
	if have.ID == "" || !in.outdated(g) || !state.SameRun(have, &g.Order) {
		return
	}
	in.rec.Order = g.Order
	in.save()
	if in.task != nil {
		in.display(in.why)
	}
}

// outdated says whether a goal to run is of another revision than what we go by.
func (in *Instance) outdated(g plan.Goal) bool {
	return g.Kind == plan.Run && in.rec.Order.Revision != g.Order.Revision
}

func (in *Instance) facts() plan.Facts {
	return plan.Facts{
		Task: in.task != nil, Handle: in.rec.Handle != nil, Unsure: in.life.unsure,
		Waiting: time.Until(in.due) > 0,
		Run:     in.rec.Order, Phase: in.rec.Phase,
	}
}

// pause waits until the goal changes, d is over (a moment that has just passed makes it
// negative) or ctx is done.
func (in *Instance) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	in.waitFor(ctx, t.C)
}

// rest waits until the goal changes or ctx is done, for as long as it takes.
func (in *Instance) rest(ctx context.Context) { in.waitFor(ctx, nil) }

// waitFor waits for over as well. Meanwhile a record that could not be written is tried
// again.
func (in *Instance) waitFor(ctx context.Context, over <-chan time.Time) {
	for {
		retry, stop := in.retry()
		select {
		case <-ctx.Done():
		case <-in.wake:
		case <-over:
		case <-retry:
			in.save()
			continue
		}
		stop()
		return
	}
}

// retry returns a channel that fires when the record should be written again;
// it never does while there is nothing to write.
func (in *Instance) retry() (<-chan time.Time, func()) {
	if in.saveAt.IsZero() {
		return nil, func() {}
	}
	t := time.NewTimer(max(time.Until(in.saveAt), 0))
	return t.C, func() { t.Stop() }
}

// saveLater puts the write of the record off for a moment, so that an instance that wakes and
// sleeps again is written once. It is only for what a successor need not know.
func (in *Instance) saveLater() {
	if in.saveAt.IsZero() {
		in.saveAt = time.Now().Add(RetryAfter)
	}
}

// save writes the record. A failure is shown as a problem of the engine.
func (in *Instance) save() bool {
	in.rec.V, in.rec.Boot = wire.Version, in.deps.Boot
	err := os.MkdirAll(in.layout.Dir, 0o700)
	if err == nil {
		err = in.rec.Write(in.layout.RecordFile())
	}
	if err != nil {
		err = fmt.Errorf("its state can't be kept; nothing new is started for it until it can: %w", err)
	}
	in.deps.Problems.Set("instance "+in.ID, err)
	in.saveAt = time.Time{}
	if err != nil {
		in.saveAt = time.Now().Add(RetryAfter)
	}
	return err == nil
}

// reason is what a status says beside its phase.
type reason struct {
	text  string
	cause wire.Cause // where something is decided by it
}

// reason is what the record says beside its phase.
func (in *Instance) reason() reason { return reason{in.rec.Why, in.rec.Cause} }

// show publishes the status. order is the one that the phase is about.
func (in *Instance) show(phase wire.Phase, why reason, order *wire.Order) {
	s := wire.InstanceStatus{
		ID: in.ID, Incarnation: order.Incarnation, Revision: order.Revision,
		Phase: phase, Ready: in.life.ready(), Draining: in.life.traffic == draining, Why: why.text,
		Cause: why.cause,
	}
	if state.SameRun(&in.rec.Order, order) {
		s.Ports, s.Restarts, s.LastExit, s.Started = in.rec.Ports, in.rec.Restarts(), in.rec.LastExit, in.rec.Started
		s.Secrets = in.rec.Secrets
	}
	s.Addrs, s.Volumes = in.net.Addrs, in.worked
	s.Asleep = in.life.sleeps() && (phase == wire.PhasePending || phase == wire.PhaseRunning)
	if order.Sleep != nil {
		s.StartUp = status.StartUp(in.rec.StartUp)
	}
	if in.task != nil {
		s.PID = in.task.Handle().PID
	}
	released := in.refresh()
	in.deps.Board.Put(s, in.putOff(phase, order))
	if released {
		in.deps.Released()
	}
}

// refresh brings the snapshot up to date; released says that it holds no room any more.
func (in *Instance) refresh() (released bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	before := in.presence()
	in.state = in.snap()
	return before.Holds && !in.presence().Holds
}

// settle shows an instance that needs no step.
func (in *Instance) settle(g plan.Goal) {
	if g.Kind != plan.Sleep {
		in.expect(&in.rec.Order, false)
	}
	switch g.Kind {
	case "": // there is no plan yet
	case plan.Refuse:
		in.show(wire.PhaseRefused, reason{text: g.Why}, &g.Order)
		if in.life.sleeps() || g.Order.Sleep != nil { // somebody waits for it
			in.deps.Changed()
		}
	case plan.Sleep:
		if !state.SameRun(&in.rec.Order, &g.Order) || in.rec.Phase == wire.PhaseStopped {
			in.rec = in.rec.Next()
		}
		// It is not written: a successor finds the order, and lets it sleep.
		in.rec.Order, in.rec.Phase, in.rec.Wait, in.due = g.Order, wire.PhasePending, 0, time.Time{}
		in.rec.Why, in.rec.Cause = "", ""
		in.life.fallAsleep()
		in.expect(&g.Order, true)
		why := reason{WhyAsleep, wire.CauseAsleep}
		if in.fetchProblem != "" {
			why.text += ", and what it needs is tried to get again then: " + in.fetchProblem
			why.cause = wire.CauseUnfetched
		}
		in.show(wire.PhasePending, why, &g.Order)
		in.deps.Changed()
	case plan.Stop:
		if in.rec.Order.ID == "" {
			in.rec.Order = g.Order
		}
		if in.rec.Phase != wire.PhaseStopped {
			in.rec.Phase, in.rec.Why, in.rec.Cause = wire.PhaseStopped, "", ""
			in.save()
		}
		in.show(wire.PhaseStopped, in.reason(), &g.Order)
	default:
		in.show(in.rec.Phase, in.reason(), &in.rec.Order)
	}
}

// forget drops all traces. False if that failed, or if the instance is ordered again.
func (in *Instance) forget(ctx context.Context) bool {
	in.expect(&in.rec.Order, false)
	in.endCopies(runtime.ErrGone)
	if err := in.detach(); err != nil {
		in.deps.Problems.Set("network of "+in.ID, err)
		in.pause(ctx, RetryAfter)
		return false
	}
	in.deps.Ports.Release(in.ID)
	if err := in.deps.Logs.Keep(in.ID, in.rec.Order.Incarnation); err != nil {
		in.log.Warn("its log is not kept", "error", err) // which must not keep it here
	}
	if !in.remove(ctx) {
		return false
	}
	for _, about := range []string{"instance " + in.ID, "mounts of " + in.ID, "network of " + in.ID,
		state.LogSubject(in.ID), state.FileSubject(in.layout.RecordFile())} {
		in.deps.Problems.Set(about, nil)
	}
	return in.deps.Forgotten(in)
}

// remove removes what the instance has on disk, but named volumes. False if that
// failed.
func (in *Instance) remove(ctx context.Context) bool {
	if !in.unmount() { // nothing may be removed through a mount
		in.pause(ctx, RetryAfter)
		return false
	}
	if err := os.RemoveAll(in.layout.Dir); err != nil {
		in.deps.Problems.Set("instance "+in.ID, fmt.Errorf("its files can't be removed: %w", err))
		in.pause(ctx, RetryAfter)
		return false
	}
	if in.deps.Users != nil {
		in.deps.Problems.Set("instance "+in.ID, in.deps.Users.Release(in.ID))
	}
	in.rec, in.saveAt, in.due = state.Record{}, time.Time{}, time.Time{}
	return true
}

// sweep ends what an earlier engine may have started without recording it.
func (in *Instance) sweep(ctx context.Context) {
	err := in.deps.Orphans.End(ctx, in.ID)
	if err == nil {
		err = in.endOrphans(ctx)
	}
	if err != nil {
		if ctx.Err() == nil {
			in.deps.Problems.Set("instance "+in.ID, err)
			in.pause(ctx, RetryAfter)
		}
		return
	}
	in.life.swept()
	if in.rec.Starting {
		in.rec.Starting = false
		in.save()
	}
}

// endOrphans lets drivers end what an earlier engine may have started without recording it, where
// it is not found among processes.
func (in *Instance) endOrphans(ctx context.Context) error {
	was := in.rec.Order
	if was.Spec == nil { // the record was damaged: most likely what is wanted ran
		was = in.Goal().Order
	}
	for name, d := range in.deps.Drivers {
		s, ok := d.(runtime.Orphans)
		if !ok {
			continue
		}
		err := s.EndOrphans(ctx, in.ID)
		if errors.Is(err, runtime.ErrAway) && was.Spec != nil && name != state.RuntimeOf(&was) {
			continue // it is not of this driver
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// adopt takes up the task that an earlier engine started.
func (in *Instance) adopt(ctx context.Context) {
	order := &in.rec.Order
	driver, ok := in.deps.Drivers[state.RuntimeOf(order)]
	if !ok {
		in.show(wire.PhaseRunning,
			reason{text: fmt.Sprintf("not supervised: this engine has no runtime %q", state.RuntimeOf(order))}, order)
		in.rest(ctx)
		return
	}
	if in.rec.Net != nil {
		if err := in.attach(order); err != nil {
			in.deps.Problems.Set("network of "+in.ID, fmt.Errorf("it is not found again: %w", err))
		}
	}
	task, err := driver.Adopt(ctx, in.spec(order), *in.rec.Handle)
	switch {
	case err == nil:
		in.log.Info("found again", "pid", in.rec.Handle.PID)
		if in.deps.Users != nil && in.rec.User != 0 {
			// It has its user, whether or not that can be claimed.
			_, err := in.deps.Users.Give(in.ID, in.rec.User)
			in.deps.Problems.Set("user of "+in.ID, err)
		}
		in.life.adopted() // how long its start took is not known
		in.since = time.Now().Add(-in.age())
		in.adoptTask(task)
	case errors.Is(err, runtime.ErrGone):
		in.lost()
	case ctx.Err() != nil:
	default:
		in.deps.Problems.Set("instance "+in.ID, fmt.Errorf("it can't be found again: %w", err))
		in.pause(ctx, RetryAfter)
	}
}
