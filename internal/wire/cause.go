package wire

import "strings"

// Cause is why an instance took a step, as far as something is decided by it. What people read
// is the text beside it.
type Cause string

// Causes of steps. "" is any other.
const (
	CauseCompleted Cause = "completed" // its program ended well, and is not to run again
	CauseRefused   Cause = "refused"   // its worker has no room for it
	CauseUpdating  Cause = "updating"  // a rollout starts another program
	CauseDrained   Cause = "drained"   // moved, as its worker is drained
	CauseMadeRoom  Cause = "made-room" // moved, to make room for another
	CauseMoved     Cause = "moved"     // moved for another reason, such as its agreement
	CauseDisplaced Cause = "displaced" // ended for an instance of a higher rank
)

// causes by how the text begins that versions before causes wrote alone. The first that fits is
// meant.
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
}

// because is the cause of a step, also of one that a version before causes recorded.
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

// Because is the cause of the step, "" for none that anything is decided by.
func (t Transition) Because() Cause { return because(t.Cause, t.Why) }

// Moved says whether the step took the instance to another worker while it ran.
func (t Transition) Moved() bool {
	switch t.Because() {
	case CauseDrained, CauseMadeRoom, CauseMoved:
		return true
	}
	return false
}

// Because is the cause of the last step of the instance.
func (i *Instance) Because() Cause { return because(i.Cause, i.Reason) }

// Completed says whether the program of the instance ended well and is not to run again.
func (i *Instance) Completed() bool { return i.State == Terminated && i.Because() == CauseCompleted }
