package exchange

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// What ends on the grid is never longer, and never nothing.
func TestOnBeat(t *testing.T) {
	base := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for now := range 1000 {
		at := base.Add(time.Duration(now) * 777 * time.Microsecond)
		for _, d := range []time.Duration{time.Nanosecond, time.Millisecond, beat - 1, beat, beat + 1, time.Second, 9511 * time.Millisecond} {
			got := onBeat(at, d)
			if got <= 0 || got > d || d-got >= beat {
				t.Fatalf("%s after %s: %s", d, at, got)
			}
			if d >= 2*beat && at.Add(got).UnixNano()%int64(beat) != 0 {
				t.Fatalf("%s after %s: %s is not on the grid", d, at, got)
			}
		}
	}
}

// Changes lead on from what is there where they begin there, or before it in the same
// history.
func TestWithin(t *testing.T) {
	r := func(inc string, n uint64) wire.Rev { return wire.Rev{Inc: inc, N: n} }
	for _, c := range []struct {
		have, since, to wire.Rev
		want            bool
	}{
		{r("a", 5), r("a", 5), r("a", 9), true},
		{r("a", 5), r("a", 5), r("b", 9), true}, // the upper side has started again meanwhile
		{r("a", 5), r("a", 3), r("a", 9), true},
		{r("a", 5), r("a", 3), r("b", 9), false}, // where a ended is not known here
		{r("a", 5), r("a", 6), r("a", 9), false},
		{r("a", 9), r("a", 5), r("a", 9), false}, // it is there
		{r("a", 9), r("a", 9), r("a", 9), false},
		{r("a", 12), r("a", 5), r("a", 9), false},
		{r("b", 5), r("a", 5), r("a", 9), false},
		{wire.Rev{}, wire.Rev{}, r("a", 9), false},
	} {
		if got := within(c.have, c.since, c.to); got != c.want {
			t.Errorf("from %s to %s, at %s: %v", c.since, c.to, c.have, got)
		}
	}
}
