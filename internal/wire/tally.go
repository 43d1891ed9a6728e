package wire

import (
	"fmt"
	"time"
)

// ReportedTally begins the keys below which a cluster reports what it has counted,
// beside its instances: + name of an application: Tally, or + TallyGone.
const ReportedTally = "tally/"

// TallyGone stands for the applications that are no more. No application has such a
// name.
const TallyGone = "-"

// maxTally bounds what a tally that was sent may say, so that a sum of them has
// room.
const maxTally = 1 << 40

// Tally counts what became of an application. It only grows.
type Tally struct {
	// Restarts of instances, as Instance.Again counts them. Versions before this one counted
	// updates, moves and runs of jobs as well.
	Restarts uint64 `json:"restarts"`
	// Changes that were applied: services that were added, changed, scaled or removed.
	Changes uint64 `json:"changes"`
	// Completed and Failed are runs of jobs, Missed times of schedules that passed while
	// nobody could begin a run.
	Completed uint64 `json:"runs_completed,omitempty"`
	Failed    uint64 `json:"runs_failed,omitempty"`
	Missed    uint64 `json:"runs_missed,omitempty"`
}

// Plus adds two tallies.
func (t Tally) Plus(o Tally) Tally {
	return Tally{Restarts: t.Restarts + o.Restarts, Changes: t.Changes + o.Changes,
		Completed: t.Completed + o.Completed, Failed: t.Failed + o.Failed, Missed: t.Missed + o.Missed}
}

// Since is what was added to t after it was was.
func (t Tally) Since(was Tally) Tally {
	less := func(n, was uint64) uint64 { return n - min(was, n) }
	return Tally{Restarts: less(t.Restarts, was.Restarts), Changes: less(t.Changes, was.Changes),
		Completed: less(t.Completed, was.Completed), Failed: less(t.Failed, was.Failed), Missed: less(t.Missed, was.Missed)}
}

// Clamp is t without numbers that no count can have reached.
func (t Tally) Clamp() Tally {
	return Tally{Restarts: min(t.Restarts, maxTally), Changes: min(t.Changes, maxTally),
		Completed: min(t.Completed, maxTally), Failed: min(t.Failed, maxTally), Missed: min(t.Missed, maxTally)}
}

// String is "2 restarts, 3 changes applied".
func (t Tally) String() string {
	count := func(n uint64, one, many string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %s", n, many)
	}
	out := count(t.Restarts, "restart", "restarts") + ", " + count(t.Changes, "change", "changes") + " applied"
	if t.Completed > 0 {
		out += ", " + count(t.Completed, "run of jobs", "runs of jobs") + " completed"
	}
	if t.Failed > 0 {
		out += ", " + count(t.Failed, "run", "runs") + " failed"
	}
	if t.Missed > 0 {
		out += ", " + count(t.Missed, "run", "runs") + " missed"
	}
	return out
}

// TallySince is what was counted since a moment.
type TallySince struct {
	At time.Time `json:"at"`
	Tally
}
