package engine

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/plan"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/status"
	"github.com/verge-edge/verge/internal/wire"
)

// leastPatience is how long an instance that does not answer yet is kept awake at
// least: whoever woke it may still be waiting.
const leastPatience = time.Minute

// Wake implements proxy.Local: it starts an instance that sleeps, if there is room.
func (e *Engine) Wake(id wire.InstanceID) {
	e.mu.Lock()
	in := e.instances[id]
	e.mu.Unlock()
	if in != nil && in.setAwake(true) {
		e.replan()
	}
}

// whyAsleep is what is said of an instance that sleeps.
const whyAsleep = "asleep: the next request starts it"

// setAwake says whether an instance is to be awake; true if that is news.
func (in *instance) setAwake(awake bool) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.awake == awake {
		return false
	}
	in.awake = awake
	return true
}

// heed wakes an instance of which an order says for the first time that it is to be
// awake.
func (in *instance) heed(o *wire.Order) {
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
		in.setAwake(true)
	}
}

// doze lets an instance sleep, from the next plan on.
func (in *instance) doze() {
	if in.setAwake(false) {
		in.kit.released()
	}
}

// A request waits for an instance that it wakes through starts that fail, as long as
// the next one is at most patientFor away and fewer than patientTries failed in a row:
// one that stumbles once is there soon. Then whoever waits is told, and so is who comes,
// until it is tried again: trying is what the restart rule allows, however many ask.
const (
	patientFor   = time.Second
	patientTries = 3
)

// putOff says whether requests wait for an instance that is in this phase by this order.
func (in *instance) putOff(phase wire.Phase, o *wire.Order) *status.Unavailable {
	if o.Sleep == nil || in.task != nil {
		return nil
	}
	trouble := cmp.Or(in.trouble, "its start failed")
	switch phase {
	case wire.PhaseRefused:
		if g := in.currentGoal(); g.Kind == plan.Refuse && g.Full {
			return &status.Unavailable{Why: "its worker has no room for it now", Full: true}
		}
		return &status.Unavailable{Why: "its worker cannot run it"}
	case wire.PhaseExited:
		return &status.Unavailable{Why: trouble + "; it is not tried again there"}
	case wire.PhasePending:
		if in.stuck != "" {
			return &status.Unavailable{Why: in.stuck}
		}
		if wait := time.Until(in.due); wait > patientFor || wait > 0 && in.rec.Failures >= patientTries {
			return &status.Unavailable{Why: trouble, Due: in.due}
		}
	}
	return nil
}

// ended says in words for clients how a start came to its end.
func ended(e wire.Exit) string {
	switch {
	case e.OOM:
		return "its program was ended for using more memory than its limit"
	case e.Unknown:
		return "its program ended"
	case e.Why != "":
		return "it did not become ready in time"
	case e.Signal != "":
		return "its program was ended by signal " + e.Signal
	}
	return fmt.Sprintf("its program ended with exit code %d", e.Code)
}

// drowsy is how long an instance that runs may still be without a request before it
// sleeps; false where it does not sleep.
func (in *instance) drowsy() (time.Duration, bool) {
	rule := in.currentGoal().Order.Sleep
	if rule == nil {
		return 0, false
	}
	idle, from := rule.Idle.Std(), in.since
	if in.life.ready() {
		from = in.answers
	} else {
		idle = max(idle, leastPatience)
	}
	if last := in.kit.router.LastRequest(in.id); last.After(from) {
		from = last
	}
	return max(time.Until(from.Add(idle)), 0), true
}

// drowsiness returns a channel that fires when it may be time to sleep, and what
// ends that.
func (in *instance) drowsiness() (<-chan time.Time, func()) {
	d, ok := in.drowsy()
	if !ok {
		return nil, func() {}
	}
	// Not less than a moment, so that what is used all the time is looked at rarely.
	t := time.NewTimer(max(d, time.Second/10))
	return t.C, func() { t.Stop() }
}

// answered notes that an instance is ready for the first time in its run, and how
// long that took since it was started or, where it slept, since the try that succeeded
// began to get what it needs. What failed before, and waiting for room, is no time of a
// start: who scales by it would believe that one takes minutes.
func (in *instance) answered() {
	now := time.Now()
	in.answers = now
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

// rounded is a start-up time as it is told: in steps of a quarter, so that it is no
// news with each start.
func rounded(d time.Duration) api.Duration {
	if d <= 0 {
		return 0
	}
	const step = 1.25
	n := math.Round(math.Log(float64(max(d, time.Millisecond))/float64(time.Millisecond)) / math.Log(step))
	return api.Duration(time.Duration(math.Pow(step, n) * float64(time.Millisecond)).Round(100 * time.Microsecond))
}
