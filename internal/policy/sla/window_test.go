package sla

import (
	"testing"
	"time"

	// rapid: property tests that shrink a failure to its smallest case.
	"pgregory.net/rapid"
)

var epoch = time.Unix(1e9, 0)

// One is the first violation, zero is never, and in between it is the share of thirty.
func TestRigidness(t *testing.T) {
	for rigidness, want := range map[float64]int{1: 1, 0.9: 4, 0.5: 16, 0.1: 28, 0.05: 29, 0: 0} {
		var w Window
		at := 0
		for n := 1; n <= 3*Size && at == 0; n++ {
			if w = w.Add(true); w.Broken(rigidness) {
				at = n
			}
		}
		if least := Least(rigidness); want > 0 && least.Samples() != want || least.Violated() != least.Samples() || least.Broken(rigidness) != (want > 0) {
			t.Errorf("rigidness %g: the least is %+v", rigidness, least)
		}
		if at != want {
			t.Errorf("rigidness %g: broken by %d violations, want %d", rigidness, at, want)
		}
	}
	if why := Decide(Window{}.Add(false).Add(true), 1, time.Time{}, epoch); why != "1 of the last 2 samples violate its agreement, with rigidness 1 at most 0 of 30 may" {
		t.Error(why)
	}
}

func TestWindowProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Bool(), 0, 100).Draw(t, "samples")
		var all, last Window
		for _, v := range samples {
			all = all.Add(v)
		}
		violated := 0
		tail := samples[max(0, len(samples)-Size):]
		for _, v := range tail {
			last = last.Add(v)
			if v {
				violated++
			}
		}
		if all.Violated() != violated || all.Samples() != len(tail) || len(samples) >= Size && all != last {
			t.Fatalf("%+v, want %d of %d", all, violated, len(tail))
		}
		less, more := rapid.Float64Range(0, 1).Draw(t, "a"), rapid.Float64Range(0, 1).Draw(t, "b")
		if less > more {
			less, more = more, less
		}
		if all.Broken(less) && !all.Broken(more) {
			t.Fatalf("%d violations break %g and not %g", violated, less, more)
		}
		if all.Broken(more) != (more > 0 && float64(violated)/Size > 1-more+1e-9) {
			t.Fatalf("%d violations, rigidness %g: %v", violated, more, all.Broken(more))
		}
	})
}

// At most one move in five minutes, whatever the samples, unless a whole window of them
// violates the agreement.
func TestMovesAreFarApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w Window
		var last time.Time
		rigidness := rapid.Float64Range(0, 1).Draw(t, "rigidness")
		now := epoch
		for range 200 {
			now = now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "s")) * time.Second)
			w = w.Add(rapid.IntRange(0, 3).Draw(t, "kept") > 0)
			if Decide(w, rigidness, last, now) == "" {
				continue
			}
			if !last.IsZero() && now.Sub(last) < Rest && w.Violated() != Size {
				t.Fatalf("moved again after %v with %d violations", now.Sub(last), w.Violated())
			}
			last, w = now, Window{}
		}
	})
}
