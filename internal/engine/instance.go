package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/engine/plan"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// retryAfter is the pause after something failed that is not the instance's
// fault: a full disk, a process that can't be killed.
const retryAfter = 2 * time.Second

// instance is one instance with the goroutine that supervises it.
type instance struct {
	id    wire.InstanceID
	kit   *kit
	place state.Layout
	log   *slog.Logger
	wake  chan struct{} // holds one: the goal has changed

	mu    sync.Mutex // guards below
	goal  plan.Goal
	state state.Snapshot
	// awake: it is to run although its order lets it sleep.
	awake bool
	// copies into it that go on.
	copies map[*entering]struct{}

	// Only the supervisor's goroutine:
	rec      state.Record
	task     runtime.Task
	life     lifecycle
	since    time.Time          // since when the task runs, monotonic
	tried    time.Time          // when the last try at a start began, monotonic
	due      time.Time          // when to start next, monotonic
	away     time.Duration      // what the last start was put off for, because something did not answer
	blame    string             // what that was, in words
	saveAt   time.Time          // when rec is written (again); monotonic; zero: it is on disk as it should be
	provided wire.Order         // of which it has been
	lacks    string             // why it could not be, "" if it could
	trouble  string             // why its last start failed, in words for clients
	stuck    string             // what a start waits for that nobody knows the time of, in such words
	answers  time.Time          // since when it is ready, monotonic
	why      string             // of a running instance
	addrs    []netip.Addr       // in the service network
	host     netip.Addr         // the worker's own address there
	netns    string             // path of its network namespace, "" for the machine's
	resolv   string             // path of its /etc/resolv.conf, "" for the machine's
	env      []string           // of a running instance that commands are run beside; nil if not known
	hidden   [][]byte           // values of secrets in env
	worked   *wire.VolumeReport // what was done of the work on its volumes; not changed once it is here
	rotateAt time.Time          // when secret files are tried to be exchanged again, monotonic; zero: not at all
}

// newInstance makes an instance from what is known of it; rec is zero for a new
// one. Its supervisor is run.
func newInstance(k *kit, id wire.InstanceID, rec state.Record, marked bool) *instance {
	in := &instance{
		id: id, kit: k, rec: rec, wake: make(chan struct{}, 1),
		place: state.At(k.dir, id),
		log:   k.log.With("instance", id),
	}
	left := marked && rec.Handle == nil
	if rec.Boot == k.boot {
		left = left || rec.Starting
		if rec.Wait > 0 {
			in.due = time.Now().Add(rec.Wait)
		}
	}
	in.life.lost(left)
	// What an engine before was starting is nobody's wish any more: whoever waited for
	// it went with that engine.
	in.awake = rec.Handle != nil && rec.Boot == k.boot
	k.ports.Keep(id, rec.Ports)
	in.state = in.snap()
	return in
}

// setGoal tells the supervisor what should become of its instance.
func (in *instance) setGoal(g plan.Goal) {
	in.mu.Lock()
	same := in.goal.Kind == g.Kind && in.goal.Order.Volumes.Same(g.Order.Volumes) && in.goal.Why == g.Why && (in.goal.Order.Sleep == nil) == (g.Order.Sleep == nil) &&
		in.goal.Order.Revision == g.Order.Revision && state.SameRun(&in.goal.Order, &g.Order)
	in.goal = g
	in.mu.Unlock()
	if !same {
		in.poke()
	}
}

// poke lets the supervisor look again at what is to be done.
func (in *instance) poke() {
	select {
	case in.wake <- struct{}{}:
	default: // it has not seen the last change yet and will see both
	}
}

func (in *instance) currentGoal() plan.Goal {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.goal
}

// present is what the next plan must know.
func (in *instance) present() plan.Present {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.presence()
}

// presence is what an instance holds, and whether it is awake; in.mu is held.
func (in *instance) presence() plan.Present {
	p := in.goal.Presence(in.state.Busy, in.state.Phase, &in.state.Order)
	p.Awake = in.awake
	if p.Order.Sleep != nil && !p.Awake && !in.state.Busy {
		p.Holds = false
	}
	return p
}

func (in *instance) snap() state.Snapshot {
	return state.Snapshot{
		Busy:  in.task != nil || in.rec.Handle != nil || in.life.unsure,
		Phase: in.rec.Phase,
		Order: in.rec.Order,
		Task:  in.task,
		Ports: in.rec.Ports,
		Addrs: in.addrs,
		NetNS: in.netns,
		Host:  in.host,
	}
}

// run supervises the instance until it is forgotten, left, or ctx is done.
func (in *instance) run(ctx context.Context) {
	if in.rec.Handle == nil && !in.life.unsure {
		in.unmount() // a dead engine may not have come to it
	}
	for ctx.Err() == nil {
		g := in.currentGoal()
		in.renew(g)
		switch plan.Next(in.facts(), g) {
		case plan.StepAdopt:
			in.adopt(ctx)
		case plan.StepSweep:
			in.sweep(ctx)
		case plan.StepStart:
			in.start(ctx, g.Order)
		case plan.StepWait:
			in.show(wire.PhasePending, in.rec.Why, &in.rec.Order)
			in.pause(ctx, time.Until(in.due))
		case plan.StepWatch:
			in.watch(ctx)
		case plan.StepStop:
			in.stop(ctx)
		case plan.StepRest:
			in.settle(g)
			if g.Kind == plan.Sleep && in.provide(ctx, &g.Order) {
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
			in.show(wire.PhasePending, in.rec.Why, &in.rec.Order)
			return
		}
	}
}

// renew takes over another revision of the same program: nothing is restarted,
// but what the engine itself looks up (probes, restarts, stops) is new.
func (in *instance) renew(g plan.Goal) {
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
func (in *instance) outdated(g plan.Goal) bool {
	return g.Kind == plan.Run && in.rec.Order.Revision != g.Order.Revision
}

func (in *instance) facts() plan.Facts {
	return plan.Facts{
		Task: in.task != nil, Handle: in.rec.Handle != nil, Unsure: in.life.unsure,
		Waiting: time.Until(in.due) > 0,
		Run:     in.rec.Order, Phase: in.rec.Phase,
	}
}

// pause waits until the goal changes, d is over (a moment that has just passed makes it
// negative) or ctx is done.
func (in *instance) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	in.waitFor(ctx, t.C)
}

// rest waits until the goal changes or ctx is done, for as long as it takes.
func (in *instance) rest(ctx context.Context) { in.waitFor(ctx, nil) }

// waitFor waits for over as well. Meanwhile a record that could not be written is tried
// again.
func (in *instance) waitFor(ctx context.Context, over <-chan time.Time) {
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
func (in *instance) retry() (<-chan time.Time, func()) {
	if in.saveAt.IsZero() {
		return nil, func() {}
	}
	t := time.NewTimer(max(time.Until(in.saveAt), 0))
	return t.C, func() { t.Stop() }
}

// owe puts the write of the record off for a moment: it is in nobody's way then, and
// an instance that wakes and sleeps again is written once. Only for what a successor
// may as well not know.
func (in *instance) owe() {
	if in.saveAt.IsZero() {
		in.saveAt = time.Now().Add(retryAfter)
	}
}

// save writes the record. A failure is shown as a problem of the engine.
func (in *instance) save() bool {
	in.rec.V, in.rec.Boot = wire.Version, in.kit.boot
	err := os.MkdirAll(in.place.Dir, 0o700)
	if err == nil {
		err = in.rec.Write(in.place.RecordFile())
	}
	if err != nil {
		err = fmt.Errorf("its state can't be kept; nothing new is started for it until it can: %w", err)
	}
	in.kit.problems.Set("instance "+in.id, err)
	in.saveAt = time.Time{}
	if err != nil {
		in.saveAt = time.Now().Add(retryAfter)
	}
	return err == nil
}

// show publishes the status. order is the one that the phase is about.
func (in *instance) show(phase wire.Phase, why string, order *wire.Order) {
	s := wire.InstanceStatus{
		ID: in.id, Incarnation: order.Incarnation, Revision: order.Revision,
		Phase: phase, Ready: in.life.ready(), Draining: in.life.traffic == draining, Why: why,
	}
	if state.SameRun(&in.rec.Order, order) {
		s.Ports, s.Restarts, s.LastExit, s.Started = in.rec.Ports, in.rec.Restarts(), in.rec.LastExit, in.rec.Started
		s.Secrets = in.rec.Secrets
	}
	s.Addrs, s.Volumes = in.addrs, in.worked
	s.Asleep = in.life.sleeps() && (phase == wire.PhasePending || phase == wire.PhaseRunning)
	if order.Sleep != nil {
		s.StartUp = rounded(in.rec.StartUp)
	}
	if in.task != nil {
		s.PID = in.task.Handle().PID
	}
	in.mu.Lock()
	before := in.presence()
	in.state = in.snap()
	after := in.presence()
	in.mu.Unlock()
	in.kit.board.Put(s, in.putOff(phase, order))
	if before.Holds && !after.Holds {
		in.kit.released()
	}
}

// settle shows the state of an instance that nothing is to be done about.
func (in *instance) settle(g plan.Goal) {
	switch g.Kind {
	case "": // nothing is known to be wanted yet
	case plan.Refuse:
		in.show(wire.PhaseRefused, g.Why, &g.Order)
		if in.life.sleeps() || g.Order.Sleep != nil { // somebody waits for it
			in.kit.changed()
		}
	case plan.Sleep:
		if !state.SameRun(&in.rec.Order, &g.Order) || in.rec.Phase == wire.PhaseStopped {
			in.rec = state.Record{Placed: in.rec.Placed, StartUp: in.rec.StartUp, User: in.rec.User} // another incarnation counts anew
		}
		// It is not written: a successor finds the order, and lets it sleep.
		in.rec.Order, in.rec.Phase, in.rec.Why, in.rec.Wait, in.due = g.Order, wire.PhasePending, "", 0, time.Time{}
		in.life.fallAsleep()
		why := whyAsleep
		if in.lacks != "" {
			why += ", and what it needs is tried to get again then: " + in.lacks
		}
		in.show(wire.PhasePending, why, &g.Order)
		in.kit.changed()
	case plan.Stop:
		if in.rec.Order.ID == "" {
			in.rec.Order = g.Order
		}
		if in.rec.Phase != wire.PhaseStopped {
			in.rec.Phase, in.rec.Why = wire.PhaseStopped, ""
			in.save()
		}
		in.show(wire.PhaseStopped, in.rec.Why, &g.Order)
	default:
		in.show(in.rec.Phase, in.rec.Why, &in.rec.Order)
	}
}

// forget drops all traces. False if that failed, or if it is wanted again.
func (in *instance) forget(ctx context.Context) bool {
	in.endCopies(runtime.ErrGone)
	if err := in.detach(); err != nil {
		in.kit.problems.Set("network of "+in.id, err)
		in.pause(ctx, retryAfter)
		return false
	}
	in.kit.ports.Release(in.id)
	if err := in.kit.logs.Keep(in.id, in.rec.Order.Incarnation); err != nil {
		in.log.Warn("its log is not kept", "error", err) // which must not keep it here
	}
	if !in.remove(ctx) {
		return false
	}
	for _, about := range []string{"instance " + in.id, "mounts of " + in.id, "network of " + in.id, state.LogSubject(in.id), state.FileSubject(in.place.RecordFile())} {
		in.kit.problems.Set(about, nil)
	}
	return in.kit.forgotten(in)
}

// remove removes what the instance has on disk, but named volumes. False if that
// failed.
func (in *instance) remove(ctx context.Context) bool {
	if !in.unmount() { // nothing may be removed through a mount
		in.pause(ctx, retryAfter)
		return false
	}
	if err := os.RemoveAll(in.place.Dir); err != nil {
		in.kit.problems.Set("instance "+in.id, fmt.Errorf("its files can't be removed: %w", err))
		in.pause(ctx, retryAfter)
		return false
	}
	if in.kit.users != nil {
		in.kit.problems.Set("instance "+in.id, in.kit.users.Release(in.id))
	}
	in.rec, in.saveAt, in.due = state.Record{}, time.Time{}, time.Time{}
	return true
}

// sweep ends what an earlier engine may have started without noting it.
func (in *instance) sweep(ctx context.Context) {
	err := in.kit.orphans.End(ctx, in.id)
	if err == nil {
		err = in.endStrays(ctx)
	}
	if err != nil {
		if ctx.Err() == nil {
			in.kit.problems.Set("instance "+in.id, err)
			in.pause(ctx, retryAfter)
		}
		return
	}
	in.life.swept()
	if in.rec.Starting {
		in.rec.Starting = false
		in.save()
	}
}

// endStrays lets drivers end what an earlier engine may have started without noting
// it, where they keep it elsewhere than in processes.
func (in *instance) endStrays(ctx context.Context) error {
	was := in.rec.Order
	if was.Spec == nil { // the record was damaged: most likely what is wanted ran
		was = in.currentGoal().Order
	}
	for name, d := range in.kit.drivers {
		s, ok := d.(runtime.Strays)
		if !ok {
			continue
		}
		err := s.EndStrays(ctx, in.id)
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
func (in *instance) adopt(ctx context.Context) {
	order := &in.rec.Order
	driver, ok := in.kit.drivers[state.RuntimeOf(order)]
	if !ok {
		in.show(wire.PhaseRunning, fmt.Sprintf("not supervised: this engine has no runtime %q", state.RuntimeOf(order)), order)
		in.rest(ctx)
		return
	}
	if in.rec.Net != nil {
		if err := in.attach(order); err != nil {
			in.kit.problems.Set("network of "+in.id, fmt.Errorf("it is not found again: %w", err))
		}
	}
	task, err := driver.Adopt(ctx, in.spec(order), *in.rec.Handle)
	switch {
	case err == nil:
		in.log.Info("found again", "pid", in.rec.Handle.PID)
		if in.kit.users != nil && in.rec.User != 0 {
			// It has its user, whatever can be written down of that.
			_, err := in.kit.users.Give(in.id, in.rec.User)
			in.kit.problems.Set("user of "+in.id, err)
		}
		in.life.adopted() // nobody saw how long it took
		in.since = time.Now().Add(-in.age())
		in.took(task)
	case errors.Is(err, runtime.ErrGone):
		in.lost()
	case ctx.Err() != nil:
	default:
		in.kit.problems.Set("instance "+in.id, fmt.Errorf("it can't be found again: %w", err))
		in.pause(ctx, retryAfter)
	}
}
