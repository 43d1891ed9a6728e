package exchange

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

func TestSkewOfAPeer(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	report := func(s *Skew, ahead, late time.Duration) time.Duration {
		s.Heard(wire.Report{At: now.Add(ahead).Unix()}, now.Add(late))
		now = now.Add(10*time.Second + 300*time.Millisecond)
		return s.Ahead()
	}
	var s Skew
	if s.Heard(wire.Report{}, now); s.Ahead() != 0 {
		t.Error("something is known of one that says nothing")
	}
	for _, late := range []time.Duration{0, 4900 * time.Millisecond, time.Second, 2 * time.Second, 0} {
		if d := report(&s, 2*time.Second, late); d != 0 {
			t.Errorf("two seconds, and a report that is late by %s, make %s", late, d)
		}
	}
	// A clock that is right and a report that took long.
	if d := report(&s, 0, time.Minute); d != 0 {
		t.Errorf("a report that took a minute makes a skew of %s", d)
	}
	var ahead, behind Skew
	first, second := report(&ahead, time.Hour, 0), report(&behind, -30*time.Second, 0)
	if first < time.Hour-time.Second || first > time.Hour+time.Second || second > -29*time.Second || second < -32*time.Second {
		t.Errorf("an hour is %s, minus half a minute %s", first, second)
	}
	for range 20 { // what is shown does not move with every report
		if a, b := report(&ahead, time.Hour, 700*time.Millisecond), report(&behind, -30*time.Second, 300*time.Millisecond); a != first || b != second {
			t.Fatalf("%s became %s, %s became %s", first, a, second, b)
		}
	}
	for range skewOf { // it was set right
		report(&ahead, 0, 0)
	}
	if d := ahead.Ahead(); d != 0 {
		t.Errorf("a clock that was set right is ahead by %s", d)
	}
}
