package supervise

import (
	"cmp"
	"time"

	"github.com/verge-edge/verge/internal/engine/plan"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/status"
	"github.com/verge-edge/verge/internal/wire"
)

// leastIdle is how long an instance that does not answer yet is kept awake at least: the request
// that woke it may still wait.
const leastIdle = time.Minute

// WhyAsleep is the reason of a sleeping instance.
const WhyAsleep = "asleep: the next request starts it"

// SetAwake says whether an instance is to be awake; it reports whether that changes anything.
func (in *Instance) SetAwake(awake bool) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.awake == awake {
		return false
	}
	in.awake = awake
	return true
}

// WakeIfOrdered wakes an instance that an order says to be awake for the first time.
func (in *Instance) WakeIfOrdered(o *wire.Order) {
	if o.Sleep == nil || !o.Sleep.Awake {
		return
	}
	in.mu.Lock()
	told := in.goal.Order
	if in.goal.Kind == "" {
		told = in.state.Order
	}
	in.mu.Unlock()
	if told.ID == "" || !state.SameRun(&told, o) || told.Sleep != nil && !told.Sleep.Awake {
		in.SetAwake(true)
	}
}

// letSleep lets an instance sleep, from the next plan on.
func (in *Instance) letSleep() {
	if in.SetAwake(false) {
		in.expect(&in.rec.Order, true)
		in.deps.Released()
	}
}

// A request waits for the instance that it wakes through failed starts, while the next one is at
// most waitAtMost away and fewer than waitTries failed in a row. After that requests are refused
// until the next try, whose time the restart rule decides.
const (
	waitAtMost = time.Second
	waitTries  = 3
)

// putOff says why requests do not wait for an instance in this phase; nil if they do.
func (in *Instance) putOff(phase wire.Phase, o *wire.Order) *status.Unavailable {
	if o.Sleep == nil || in.task != nil {
		return nil
	}
	trouble := cmp.Or(in.trouble, "its start failed")
	switch phase {
	case wire.PhaseRefused:
		if g := in.Goal(); g.Kind == plan.Refuse && g.Full {
			return &status.Unavailable{Why: "its worker has no room for it now", Full: true}
		}
		return &status.Unavailable{Why: "its worker cannot run it"}
	case wire.PhaseExited:
		return &status.Unavailable{Why: trouble + "; it is not tried again there"}
	case wire.PhasePending:
		if in.stuck != "" {
			return &status.Unavailable{Why: in.stuck}
		}
		if wait := time.Until(in.due); wait > waitAtMost || wait > 0 && in.rec.Failures >= waitTries {
			return &status.Unavailable{Why: trouble, Due: in.due}
		}
	}
	return nil
}

// idleLeft is how long a running instance may stay without a request before it sleeps; false where
// it does not sleep.
func (in *Instance) idleLeft() (time.Duration, bool) {
	rule := in.Goal().Order.Sleep
	if rule == nil {
		return 0, false
	}
	idle, from := rule.Idle.Std(), in.since
	if in.life.ready() {
		from = in.readySince
	} else {
		idle = max(idle, leastIdle)
	}
	if last := in.deps.Router.LastRequest(in.ID); last.After(from) {
		from = last
	}
	return max(time.Until(from.Add(idle)), 0), true
}

// idleTimer returns a channel that fires when it may be time to sleep, and a function that stops
// it.
func (in *Instance) idleTimer() (<-chan time.Time, func()) {
	d, ok := in.idleLeft()
	if !ok {
		return nil, func() {}
	}
	// Not less than a moment, so that what is used all the time is looked at rarely.
	t := time.NewTimer(max(d, time.Second/10))
	return t.C, func() { t.Stop() }
}

// answered notes that an instance is ready for the first time in its run, and how long that took:
// from its start or, where it was woken, from the try that succeeded. Failed tries and waiting for
// room do not count: scaling would believe that a start takes minutes.
func (in *Instance) answered() {
	now := time.Now()
	in.readySince = now
	first, woken := in.life.answered()
	if !first {
		return
	}
	from := in.since
	if woken {
		from = in.tried
	}
	took := now.Sub(from)
	if was := in.rec.StartUp; was > 0 {
		took = (3*was + took) / 4
	}
	in.rec.StartUp = took // written with the next change: it is worth no write
}
