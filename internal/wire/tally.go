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
	// Restarts of instances: runs of an instance that had run before, in place or
	// elsewhere, whatever the reason. A first run is none.
	Restarts uint64 `json:"restarts"`
	// Changes that were applied: services that were added, changed, scaled or removed.
	Changes uint64 `json:"changes"`
}

// Plus adds two tallies.
func (t Tally) Plus(o Tally) Tally {
	return Tally{Restarts: t.Restarts + o.Restarts, Changes: t.Changes + o.Changes}
}

// Since is what was added to t after it was was.
func (t Tally) Since(was Tally) Tally {
	return Tally{Restarts: t.Restarts - min(was.Restarts, t.Restarts), Changes: t.Changes - min(was.Changes, t.Changes)}
}

// Clamp is t without numbers that no count can have reached.
func (t Tally) Clamp() Tally {
	return Tally{Restarts: min(t.Restarts, maxTally), Changes: min(t.Changes, maxTally)}
}

// String is "2 restarts, 3 changes applied".
func (t Tally) String() string {
	count := func(n uint64, what string) string {
		if n == 1 {
			return "1 " + what
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	return count(t.Restarts, "restart") + ", " + count(t.Changes, "change") + " applied"
}

// TallySince is what was counted since a moment.
type TallySince struct {
	At time.Time `json:"at"`
	Tally
}
