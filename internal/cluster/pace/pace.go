package pace

import (
	"time"

	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Known is what this process knows beside what is stored. The lock of the model guards it.
type Known struct {
	LastPass time.Time     // when workers were judged last
	Planned  time.Duration // from LastPass to the next look at the clock
	// HeardOf are the instances of which something was heard since the last pass or the last
	// use of the fast path. Owed: the fast path was used since the last pass, which ended at
	// Passed and of which the steps took Stepped.
	HeardOf map[wire.InstanceID]bool
	Owed    bool
	Steady  bool // as the last pass left it
	Passed  time.Time
	Stepped time.Duration
	Heeded  time.Duration // that the fast path took last
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{})

// Memory is what is known beside the records of m. A rehearsal begins without.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }

// A pass looks at everything, and most of what makes one necessary is that an instance
// has started and is ready. Where thousands start, that would be a pass for each
// handful of reports. So what was only heard of is taken over by the fast path: the
// part of a pass that is about these instances. What it does not handle it leaves as it
// is, and the next pass, which follows within a tick, looks at everything again.

// NoteHeard notes of which instances a worker has said something new. The caller has the model.
func NoteHeard(c *core.Core, ids []wire.InstanceID) {
	if c.HeardWake == nil || !Memory(c.M).Steady {
		loop.Poke(c.Wake)
		return
	}
	if Memory(c.M).HeardOf == nil {
		Memory(c.M).HeardOf = map[wire.InstanceID]bool{}
	}
	for _, id := range ids {
		Memory(c.M).HeardOf[id] = true
	}
	loop.Poke(c.HeardWake)
}
