package sla

import (
	"fmt"
	"math/bits"
	"time"
)

const (
	// Size is how many samples a window has.
	Size = 30
	// Rest is the least time between two moves of a service.
	Rest = 5 * time.Minute
	// Default rigidness of services that specify none.
	Default = 0.5
)

// Window has the last samples of an agreement. The zero value is empty. It is a value.
type Window struct {
	violated uint32 // the newest is the lowest bit
	n        int
}

// Add returns the window after another sample.
func (w Window) Add(violated bool) Window {
	w.violated = w.violated << 1 & (1<<Size - 1)
	if violated {
		w.violated |= 1
	}
	w.n = min(w.n+1, Size)
	return w
}

// Samples counts the samples.
func (w Window) Samples() int { return w.n }

// Violated counts the samples that violate the agreement.
func (w Window) Violated() int { return bits.OnesCount32(w.violated) }

// Broken says whether more samples violate the agreement than its rigidness allows: more
// than the share 1 - rigidness of a whole window.
func (w Window) Broken(rigidness float64) bool {
	const rounding = 1e-9 // 30 × (1 - 0.9) is three
	return rigidness > 0 && float64(w.Violated()) > (1-min(rigidness, 1))*Size+rounding
}

// Least is the shortest window that breaks an agreement of a rigidness. Nothing breaks
// one of 0.
func Least(rigidness float64) (w Window) {
	for w.n < Size && !w.Broken(rigidness) {
		w = w.Add(true)
	}
	return w
}

// Hard says whether all samples of a whole window violate the agreement.
func (w Window) Hard() bool { return w.Violated() == Size }

// Decide returns the reason to move an instance now, "" if it stays. last is when its
// service was last moved, zero for never.
func Decide(w Window, rigidness float64, last, now time.Time) string {
	if !w.Broken(rigidness) || !last.IsZero() && now.Sub(last) < Rest && !w.Hard() {
		return ""
	}
	return fmt.Sprintf("%d of the last %d samples violate its agreement, with rigidness %g at most %d of %d may",
		w.Violated(), w.Samples(), rigidness, allowed(rigidness), Size)
}

// allowed counts the samples that may violate an agreement.
func allowed(rigidness float64) int {
	if w := Least(rigidness); w.Broken(rigidness) {
		return w.n - 1
	}
	return Size
}
