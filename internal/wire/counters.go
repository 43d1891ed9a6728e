package wire

import "fmt"

// ReportedCounters is the prefix of the keys of a cluster's counters, beside its instances: +
// name of an application, or + GoneCounters: Counters.
const ReportedCounters = "tally/"

// GoneCounters stands for all deleted applications. No application can have this name.
const GoneCounters = "-"

// maxCounter bounds each number of a received tally, so that sums do not overflow.
const maxCounter = 1 << 40

// Counters counts what happened to an application. They only grow.
type Counters struct {
	// Restarts of instances, as Instance.Again counts them. Versions before this one counted
	// updates, moves and runs of jobs as well.
	Restarts uint64 `json:"restarts"`
	// Changes that were applied: services added, changed, scaled or removed.
	Changes uint64 `json:"changes"`
	// Completed and Failed are runs of jobs. Missed counts scheduled times at which nobody
	// could begin a run.
	Completed uint64 `json:"runs_completed,omitempty"`
	Failed    uint64 `json:"runs_failed,omitempty"`
	Missed    uint64 `json:"runs_missed,omitempty"`
}

// Plus adds two tallies.
func (t Counters) Plus(o Counters) Counters {
	return Counters{Restarts: t.Restarts + o.Restarts, Changes: t.Changes + o.Changes,
		Completed: t.Completed + o.Completed, Failed: t.Failed + o.Failed, Missed: t.Missed + o.Missed}
}

// Since returns what was added to t after it was was.
func (t Counters) Since(was Counters) Counters {
	less := func(n, was uint64) uint64 { return n - min(was, n) }
	return Counters{Restarts: less(t.Restarts, was.Restarts), Changes: less(t.Changes, was.Changes),
		Completed: less(t.Completed, was.Completed), Failed: less(t.Failed, was.Failed), Missed: less(t.Missed, was.Missed)}
}

// Clamp returns t with each number limited to maxCounter.
func (t Counters) Clamp() Counters {
	return Counters{Restarts: min(t.Restarts, maxCounter), Changes: min(t.Changes, maxCounter),
		Completed: min(t.Completed, maxCounter), Failed: min(t.Failed, maxCounter), Missed: min(t.Missed, maxCounter)}
}

// String is "2 restarts, 3 changes applied".
func (t Counters) String() string {
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
