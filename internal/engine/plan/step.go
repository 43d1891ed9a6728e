package plan

import (
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Step is the next thing that a supervisor does about its instance.
type Step string

// The steps.
const (
	StepAdopt  Step = "adopt"  // find the task that an earlier engine started
	StepSweep  Step = "sweep"  // end what an earlier engine may have started unnoted
	StepStart  Step = "start"  // start a task
	StepWait   Step = "wait"   // wait before the next start
	StepWatch  Step = "watch"  // see to the running task until something happens
	StepStop   Step = "stop"   // end the task in its orderly way
	StepRest   Step = "rest"   // nothing until the goal changes
	StepForget Step = "forget" // drop all traces
	StepLeave  Step = "leave"  // the supervisor's work is done, the files stay
)

// Facts decide about the next step.
type Facts struct {
	Task    bool // a task is in our hands
	Handle  bool // the files name a task that we have not taken up yet
	Unsure  bool // a start may have happened that the files do not know of
	Waiting bool // a wait before the next start is not over
	Run     wire.Order
	Phase   wire.Phase
}

// Next decides what a supervisor does. It is asked again after every step, so that a changed goal
// costs only the step that is under way.
func Next(f Facts, g Goal) Step {
	// What is running must be known before anything else is done about it.
	switch {
	case g.Kind == "": // there is no plan yet
		return StepRest
	case f.Task:
		if g.Kind == Run && state.SameRun(&f.Run, &g.Order) {
			return StepWatch
		}
		return StepStop
	case f.Handle:
		return StepAdopt
	case f.Unsure:
		return StepSweep
	}
	switch g.Kind {
	case Forget:
		return StepForget
	case Halt:
		return StepLeave
	case Stop, Refuse, Sleep:
		return StepRest
	}
	same := state.SameRun(&f.Run, &g.Order)
	switch {
	case same && f.Phase == wire.PhaseExited:
		return StepRest
	case same && f.Phase == wire.PhasePending && f.Waiting:
		return StepWait
	}
	return StepStart
}
