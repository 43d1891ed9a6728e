package emul

import (
	"math/bits"
	"time"
)

// Late counts how much later than due packets left the switch. Each doubling of
// the time has sixteen steps, so a percentile is off by 6 % at most.
type Late struct {
	// Steps[i] packets; see step. It is cut after the last that is not 0.
	Steps []uint64 `json:"steps"`
	// Count of all packets.
	Count uint64 `json:"count"`
}

const lateSteps = 16 * 48

// step of a lateness in nanoseconds.
func step(ns int64) int {
	if ns < 32 {
		return int(max(ns, 0)) / 2
	}
	e := bits.Len64(uint64(ns)) - 5
	return min(e*16+int(ns>>e)-16, lateSteps-1)
}

// top of a step in nanoseconds.
func top(i int) int64 {
	if i < 16 {
		return int64(i+1) * 2
	}
	return int64(i%16+17) << (i / 16)
}

// Percentile is the lateness that a share p (0 to 1) of the packets does not
// exceed; 0 if there were none.
func (l Late) Percentile(p float64) time.Duration {
	want := uint64(p * float64(l.Count))
	seen := uint64(0)
	for i, n := range l.Steps {
		if seen += n; n > 0 && seen >= want {
			return time.Duration(top(i))
		}
	}
	return 0
}

// Since is what was counted after an earlier one.
func (l Late) Since(before Late) Late {
	out := Late{Steps: append([]uint64(nil), l.Steps...), Count: l.Count - before.Count}
	for i, n := range before.Steps {
		out.Steps[i] -= n
	}
	return out
}
