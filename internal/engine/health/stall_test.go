package health

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestStalls: what could not be seen because nobody was there is no failure.
func TestStalls(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		began time.Time
		long  bool
	}{
		{now, false},
		{now.Add(-2 * time.Second), false},
		{now.Add(-time.Hour), true},
		{now.Add(-time.Hour).Round(0), true}, // the machine slept: its monotonic clock did too
		{now.Add(time.Hour), false},          // the wall clock was set back
	} {
		if d := (clock{c.began}).stall(time.Second); (d > 0) != c.long {
			t.Errorf("from %s to %s: %s", c.began, now, d)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var told []Result
		n := 0
		c := Check{Kind: Liveness, interval: 2 * time.Second, Timeout: time.Second, failures: 2}
		probeUntil(t.Context(), c, true, func(context.Context) error {
			if n++; n%2 == 0 && n < 1000 {
				return fmt.Errorf("probe %d: %w", n, &stallError{time.Hour})
			}
			return errors.New("refused")
		}, func(v Result) bool {
			told = append(told, v)
			return v.Final
		})
		if len(told) != 1 || n != 1000 && n != 1001 {
			t.Errorf("%+v after %d probes", told, n)
		}
		// A probe that comes to its end in time, but to a bad one, is one.
		for _, d := range []time.Duration{0, time.Second, time.Hour} {
			err := Timed(t.Context(), time.Second,
				func(context.Context) error { <-time.After(d); return errors.New("refused") })
			if err == nil || err.Error() != "refused" {
				t.Errorf("after %s: %v", d, err)
			}
		}
	})
}
