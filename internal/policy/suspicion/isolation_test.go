package suspicion

import (
	"testing"
	"time"
)

func TestIsolation(t *testing.T) {
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	never := time.Time{}
	type look struct {
		s                float64
		silent           bool
		answered         time.Time
		alone, over, cut bool
	}
	for name, looks := range map[string][]look{
		"somebody is always there": {{0, false, never, false, false, false}, {9, false, at(8), false, false, false}},
		"cut off, and back":        {{0, false, never, false, false, false}, {1, true, never, true, false, false}, {60, true, never, true, false, false}, {61, false, never, false, true, true}, {62, false, never, false, false, false}},
		"for a moment":             {{1, true, never, true, false, false}, {1.5, false, never, false, true, true}},
		// An answer of before says nothing; one that follows does.
		"the peers are really away":    {{1, true, at(0.9), true, false, false}, {1.01, true, at(1.005), false, true, false}, {30, true, at(29), false, false, false}, {31, false, at(30), false, false, false}},
		"the tier above is back first": {{1, true, at(0.9), true, false, false}, {40, true, at(39.9), false, true, true}, {41, true, at(39.9), false, false, false}, {45, false, at(39.9), false, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var i Isolation
			for _, l := range looks {
				var over, cut bool
				i, over, cut = i.Look(at(l.s), l.silent, Elsewhere{Answered: l.answered})
				if i.Alone() != l.alone || over != l.over || cut != l.cut {
					t.Fatalf("at %v s: alone %v, over %v, cut %v, want %v, %v and %v", l.s, i.Alone(), over, cut, l.alone, l.over, l.cut)
				}
			}
		})
	}
}

func TestAnInterruptedLinkIsNoProof(t *testing.T) {
	since := start.Add(time.Minute)
	for _, tc := range []struct {
		name           string
		answered, lost time.Duration // from the beginning of the doubt
		cut            bool
	}{
		{"it was there all the time", 10 * time.Millisecond, -time.Second, false},
		{"it came back", 900 * time.Millisecond, 500 * time.Millisecond, true},
		{"its answer was held up", 3 * time.Second, -time.Second, true},
	} {
		i, _, _ := Isolation{}.Look(since, true, Elsewhere{})
		i, over, cut := i.Look(since.Add(4*time.Second), true, Elsewhere{Answered: since.Add(tc.answered), Lost: since.Add(tc.lost)})
		if i.Alone() || !over || cut != tc.cut {
			t.Errorf("%s: alone %v, over %v, cut %v, want %v", tc.name, i.Alone(), over, cut, tc.cut)
		}
	}
}
