package event

import "github.com/verge-edge/verge/internal/wire"

// OfStep is the kind of a step in the life of an instance.
func OfStep(h wire.Transition) Kind {
	switch h.To {
	case wire.Registered:
		return InstanceRegistered
	case wire.Requested:
		return InstanceWaiting
	case wire.ClusterScheduled:
		return InstanceClusterScheduled
	case wire.WorkerScheduled:
		if h.Moved() {
			return InstanceMoved
		}
		return InstanceWorkerScheduled
	case wire.Running:
		return InstanceRunning
	case wire.Terminated:
		return InstanceEnded
	}
	if h.Because() == wire.CauseDisplaced {
		return InstancePreempted
	}
	return InstanceFailed
}

// Step is the event of a step in the life of an instance. It says when it happened and which tier
// says so.
func Step(id wire.InstanceID, h wire.Transition) Event {
	return OfStep(h).On(id, "%s: %s", h.To, h.Why).By(h.At, h.Tier)
}

// OfRun is the kind of the end of a run of a job.
func OfRun(outcome string) Kind {
	switch outcome {
	case wire.JobComplete:
		return JobSucceeded
	case wire.JobFailed:
		return JobFailed
	case "": // it goes on
		return JobRunBegun
	}
	return JobStopped
}
