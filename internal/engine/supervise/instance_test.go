package supervise

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A moment that passes between the look at it and the wait for it is over; waiting for it
// would never end.
func TestPauseUntilAMomentThatHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &Instance{wake: make(chan struct{}, 1)}
		for _, d := range []time.Duration{-time.Hour, -1, 0, time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			in.pause(ctx, d)
			if ctx.Err() != nil {
				t.Errorf("a pause of %s has no end", d)
			}
			cancel()
		}
	})
}
