package engine

import (
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

// step is the next thing that a supervisor does about its instance.
type step string

const (
	stepAdopt  step = "adopt"  // find the task that an earlier engine started
	stepSweep  step = "sweep"  // end what an earlier engine may have started unnoted
	stepStart  step = "start"  // start a task
	stepWait   step = "wait"   // wait before the next start
	stepWatch  step = "watch"  // see to the running task until something happens
	stepStop   step = "stop"   // end the task in its orderly way
	stepRest   step = "rest"   // nothing until the goal changes
	stepForget step = "forget" // drop all traces
	stepLeave  step = "leave"  // the supervisor's work is done, the files stay
)

// facts is all that decides about the next step.
type facts struct {
	task    bool // a task is in our hands
	handle  bool // the files name a task that we have not taken up yet
	unsure  bool // a start may have happened that the files do not know of
	waiting bool // a wait before the next start is not over
	run     wire.Order
	phase   wire.Phase
}

// next decides what a supervisor does. It is asked again after every step, so
// a change of mind at any point costs nothing but what is under way.
func next(f facts, g goal) step {
	// What is running must be known before anything else is done about it.
	switch {
	case g.kind == "": // there is no plan yet
		return stepRest
	case f.task:
		if g.kind == goalRun && state.SameRun(&f.run, &g.order) {
			return stepWatch
		}
		return stepStop
	case f.handle:
		return stepAdopt
	case f.unsure:
		return stepSweep
	}
	switch g.kind {
	case goalForget:
		return stepForget
	case goalHalt:
		return stepLeave
	case goalStop, goalRefuse, goalSleep:
		return stepRest
	}
	same := state.SameRun(&f.run, &g.order)
	switch {
	case same && f.phase == wire.PhaseExited:
		return stepRest
	case same && f.phase == wire.PhasePending && f.waiting:
		return stepWait
	}
	return stepStart
}
