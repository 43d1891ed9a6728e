package handshakes

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func stays() bool { return false }

// A peer that has left takes no slot, and waits no longer than until the next look.
func TestWhoHasLeftWaitsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Long)
		begin := time.Now()
		if err := s.enter(t.Context(), func() bool { return time.Since(begin) > looks }); !errors.Is(err, errLeft) || time.Since(begin) != 2*looks {
			t.Fatalf("%v after %v", err, time.Since(begin))
		}
		if len(s.slots) != 0 {
			t.Error("it has a slot")
		}
	})
}

// Who has waited for longer enters first, however often it was looked at meanwhile.
func TestWhoCameFirstIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Limiter{opened: make(chan struct{}), slots: make(chan struct{}, 1), wait: Long, slot: 3 * time.Second}
		s.Open()
		if err := s.enter(t.Context(), stays); err != nil {
			t.Fatal(err)
		}
		entered := make(chan int, 4)
		for n := range 4 {
			go func() {
				if s.enter(t.Context(), stays) == nil {
					entered <- n
				}
			}()
			time.Sleep(looks / 3)
		}
		for n := range 4 {
			time.Sleep(s.slot) // until one that was worked on counts no longer
			synctest.Wait()
			if len(entered) != 1 {
				t.Fatalf("%d have entered the slot of %d", len(entered), n)
			}
			if got := <-entered; got != n {
				t.Fatalf("%d has entered before %d", got, n)
			}
		}
	})
}

// No more handshakes are worked on at a time than there are slots; who has waited for
// too long is turned away, and who ends while waiting takes no slot.
func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Limiter{opened: make(chan struct{}), slots: make(chan struct{}, 2), wait: 3 * time.Second, slot: time.Hour}
		if err := s.enter(t.Context(), stays); !errors.Is(err, errBusy) {
			t.Fatalf("before it is open: %v", err)
		}
		s.Open()
		handshakes, end := context.WithCancel(t.Context())
		for range 2 {
			if err := s.enter(handshakes, stays); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		if err := s.enter(t.Context(), stays); !errors.Is(err, errBusy) || time.Since(begin) != 3*time.Second {
			t.Fatalf("%v after %v", err, time.Since(begin))
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if err := s.enter(gone, stays); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		var entered atomic.Int32
		for range 3 {
			go func() {
				if s.enter(t.Context(), stays) == nil {
					entered.Add(1)
				}
			}()
		}
		synctest.Wait()
		if n := entered.Load(); n != 0 {
			t.Fatalf("%d more than there are slots", n)
		}
		end() // both are done: there are two slots again
		synctest.Wait()
		if n := entered.Load(); n != 2 {
			t.Fatalf("%d entered when two had ended", n)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := entered.Load(); n != 2 {
			t.Fatalf("%d entered, the last should have been turned away", n)
		}
		time.Sleep(time.Hour) // the slots of those who never end
		synctest.Wait()
		if n := len(s.slots); n != 0 {
			t.Fatalf("%d slots are taken for ever", n)
		}
	})
}

// A peer that is slow to answer keeps its slot for no longer than a slot lasts.
func TestLimiterForgetsTheSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Limiter{opened: make(chan struct{}), slots: make(chan struct{}, 1), wait: 3 * time.Second, slot: 100 * time.Millisecond}
		s.Open()
		if err := s.enter(t.Context(), stays); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := s.enter(t.Context(), stays); err != nil || time.Since(begin) != 100*time.Millisecond {
			t.Fatalf("%v after %v", err, time.Since(begin))
		}
		time.Sleep(time.Second)
	})
}

// On a machine on which all handshakes take long a slot lasts as long as they do, up to a
// bound; when they are quick again it is short again.
func TestSlotsLastAsLongAsHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Limiter{opened: make(chan struct{}), slots: make(chan struct{}, 1), wait: 3 * time.Second, slot: 100 * time.Millisecond}
		s.Open()
		next := func() time.Duration {
			t.Helper()
			time.Sleep(time.Minute) // until the slot is free
			if err := s.enter(t.Context(), stays); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			err := s.enter(t.Context(), stays)
			if took := time.Since(begin); err == nil {
				return took
			} else if !errors.Is(err, errBusy) || took != 3*time.Second {
				t.Fatalf("%v after %v", err, took)
			}
			return time.Hour
		}
		all := func(d time.Duration) {
			for range 200 {
				s.took(d)
			}
		}
		for _, c := range []struct{ take, want time.Duration }{
			{5 * time.Millisecond, 115 * time.Millisecond}, {300 * time.Millisecond, 2100 * time.Millisecond},
			{time.Minute, time.Hour}, {5 * time.Millisecond, 115 * time.Millisecond},
		} {
			all(c.take)
			if d := next(); d < c.want*9/10 || d > c.want*11/10 {
				t.Errorf("where they take %s the next one waits for %s, want %s", c.take, d, c.want)
			}
		}
		time.Sleep(time.Minute)
	})
}
