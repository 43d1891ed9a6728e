package engine

import (
	"context"
	"testing"
	"testing/synctest"
)

// Who waits for a place in the service network gives up when the engine hands over, which
// waits for it with the lock.
func TestWhoWaitsForTheLockCanStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := make(gate, 1)
		g.Lock()
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan bool, 1)
		go func() { got <- g.lockUntil(ctx) }()
		synctest.Wait()
		cancel()
		if <-got {
			t.Error("it has a lock that another one has")
		}
		g.Unlock()
		if g.lockUntil(ctx) {
			t.Error("it has the lock after it was told to stop")
		}
		if !g.lockUntil(t.Context()) {
			t.Error("nobody has the lock, and it is not to be had")
		}
	})
}
