package life

import (
	"testing"
	"time"
)

func TestIsolation(t *testing.T) {
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	never := time.Time{}
	type look struct {
		s           float64
		silent      bool
		elsewhere   time.Time
		alone, back bool
	}
	for name, looks := range map[string][]look{
		"somebody is always there": {{0, false, never, false, false}, {9, false, at(8), false, false}},
		"cut off, and back":        {{0, false, never, false, false}, {1, true, never, true, false}, {60, true, never, true, false}, {61, false, never, false, true}, {62, false, never, false, false}},
		"for a moment":             {{1, true, never, true, false}, {1.5, false, never, false, true}},
		// An answer of before says nothing; one that follows does.
		"the peers are really away":    {{1, true, at(0.9), true, false}, {1.01, true, at(1.005), false, false}, {30, true, at(29), false, false}, {31, false, at(30), false, false}},
		"the tier above is back first": {{1, true, at(0.9), true, false}, {40, true, at(39.9), false, true}, {41, true, at(39.9), false, false}, {45, false, at(39.9), false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var i Isolation
			for _, l := range looks {
				var back bool
				i, back = i.Look(at(l.s), l.silent, l.elsewhere)
				if i.Alone() != l.alone || back != l.back {
					t.Fatalf("at %v s: alone %v, back %v, want %v and %v", l.s, i.Alone(), back, l.alone, l.back)
				}
			}
		})
	}
}
