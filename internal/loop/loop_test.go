package loop

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// run runs a loop for d of virtual time and returns when its passes were and
// what they were told.
func run(t *testing.T, d time.Duration, l *Loop, pass func(n int) (bool, error)) (at []time.Duration, changed []bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	begin := time.Now()
	l.Log = slog.New(slog.DiscardHandler)
	if l.Wake == nil {
		l.Wake = make(chan struct{}, 1)
	}
	l.Pass = func(_ context.Context, now time.Time, c bool) (bool, error) {
		at, changed = append(at, now.Sub(begin)), append(changed, c)
		return pass(len(at))
	}
	l.Run(ctx)
	return at, changed
}

func TestASettledLoopOnlyLooksAtTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, changed := run(t, 3500*time.Millisecond, &Loop{}, func(int) (bool, error) { return true, nil })
		if !slices.Equal(at, []time.Duration{0, Tick, 2 * Tick, 3 * Tick}) || !slices.Equal(changed, []bool{true, false, false, false}) {
			t.Errorf("passes at %v, changed %v", at, changed)
		}
	})
}

func TestAnUnsettledLoopGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Loop{Pause: func(settled bool) time.Duration {
			if settled {
				return time.Minute
			}
			return 100 * time.Millisecond
		}}
		at, changed := run(t, 10*time.Second, l, func(n int) (bool, error) {
			return n == 2, map[bool]error{true: errors.New("disk full")}[n == 1]
		})
		if !slices.Equal(at, []time.Duration{0, 100 * time.Millisecond}) || !slices.Equal(changed, []bool{true, true}) {
			t.Errorf("passes at %v, changed %v", at, changed)
		}
	})
}

func TestPokesAreNeitherLostNorQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Loop{Wake: make(chan struct{}, 1)}
		at, _ := run(t, 500*time.Millisecond, l, func(n int) (bool, error) {
			if n == 1 {
				for range 10 {
					Poke(l.Wake)
				}
			}
			return true, nil
		})
		if len(at) != 2 {
			t.Errorf("%d passes, want the first and one for all the pokes", len(at))
		}
	})
}
