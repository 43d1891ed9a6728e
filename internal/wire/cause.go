package wire

import "strings"

// Cause is why an instance took a step or is not ready, where decisions depend on it. People
// read the text beside it.
type Cause string

// Causes of steps and of later reports. "" is any other.
const (
	CauseCompleted Cause = "completed" // its program succeeded and is not run again
	CauseRefused   Cause = "refused"   // its worker has no room for it
	CauseUpdating  Cause = "updating"  // a rollout starts another program
	CauseDrained   Cause = "drained"   // moved because its worker is drained
	CauseMadeRoom  Cause = "made-room" // moved, to make room for another
	CauseMoved     Cause = "moved"     // moved for another reason, such as its agreement
	CauseDisplaced Cause = "displaced" // ended for an instance of a higher rank
	CauseDisplaces Cause = "displaces" // waits for room that others make on a worker
	CauseAsleep    Cause = "asleep"    // the next request starts it
	CauseUnfetched Cause = "unfetched" // asleep, and what it needs could not be fetched
	CauseStartup   Cause = "startup"   // its startup check fails
	CauseReadiness Cause = "readiness" // its readiness check fails
	CauseLiveness  Cause = "liveness"  // its liveness check fails
	CauseExited    Cause = "exited"    // its program ended; the text says how, and what follows
)

// causes maps prefixes of the texts that versions without causes wrote. The first match counts.
var causes = []struct {
	begins string
	cause  Cause
}{
	{"completed", CauseCompleted},
	{"refused by its worker", CauseRefused},
	{"updating to revision ", CauseUpdating},
	{"moved to another worker, as its own is drained", CauseDrained},
	{"moved to another worker: makes room for ", CauseMadeRoom},
	{"moved to another worker", CauseMoved},
	{"displaced by ", CauseDisplaced},
	{"displaces ", CauseDisplaces},
	{"asleep: the next request starts it, and what it needs ", CauseUnfetched},
	{"asleep: the next request starts it", CauseAsleep},
	{"startup ", CauseStartup},
	{"readiness ", CauseReadiness},
	{"liveness ", CauseLiveness},
	{"exit code ", CauseExited},
	{"killed ", CauseExited},
	{"ended while nobody was watching", CauseExited},
}

// because returns the cause of a step, even if a version without causes recorded it.
func because(cause Cause, text string) Cause {
	if cause != "" {
		return cause
	}
	for _, c := range causes {
		if strings.HasPrefix(text, c.begins) && (c.cause != CauseCompleted || text == c.begins) {
			return c.cause
		}
	}
	return ""
}

// Because returns the cause of the step, "" if no decision depends on it.
func (t Transition) Because() Cause { return because(t.Cause, t.Why) }

// Exited says whether the step tells of exit e, which may be nil.
func (t Transition) Exited(e *Exit) bool { return exited(t.Cause, t.Why, e) }

// exited compares texts only of versions without CauseExited: they began with how the program
// ended, and with what the check had found if one had it ended.
func exited(cause Cause, text string, e *Exit) bool {
	if cause != "" {
		return cause == CauseExited
	}
	return because(cause, text) == CauseExited || e != nil && e.Why != "" && strings.HasPrefix(text, e.Why)
}

// Moved says whether the step took the instance to another worker while it ran.
func (t Transition) Moved() bool {
	c := t.Because()
	return c == CauseDrained || c == CauseMadeRoom || c == CauseMoved
}

// Because returns the cause of the instance's last step or report.
func (i *Instance) Because() Cause { return because(i.Cause, i.Reason) }

// Exited says whether the instance's last step or report tells of its last exit.
func (i *Instance) Exited() bool { return exited(i.Cause, i.Reason, i.LastExit) }

// Displaces says whether the instance waits for others to make room on a worker.
func (i *Instance) Displaces() bool { return i.Because() == CauseDisplaces }

// Completed says whether the program of the instance succeeded and is not run again.
func (i *Instance) Completed() bool { return i.State == Terminated && i.Because() == CauseCompleted }
