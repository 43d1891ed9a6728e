package wasm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestProcessorsOfAFunction(t *testing.T) {
	for _, c := range []struct {
		limit      int64
		have, want int
	}{
		{0, 1, 1}, {0, 2, 1}, {0, 8, 7}, {100, 8, 1}, {1000, 8, 1}, {1001, 8, 2}, {4000, 8, 4}, {64000, 8, 7}, {2000, 1, 1},
	} {
		if got := processors(c.limit, c.have); got != c.want {
			t.Errorf("a limit of %dm with %d processors: %d at a time, want %d", c.limit, c.have, got, c.want)
		}
	}
}

// A request that computes takes a turn, one that waits takes none.
func TestRequestsTakeTurns(t *testing.T) {
	t.Parallel()
	// Long beside what a busy machine takes to begin a request.
	const most = 3 * time.Second
	d := newDriver(t, Options{})
	s := specOf(t, testModule(t, "handler"))
	s.Wasm.Timeout, s.CPULimit = most, 1000
	x := startTask(t, d, s)
	if x.turns.most != 1 {
		t.Fatalf("%d compute at a time", x.turns.most)
	}
	begin := func(do string) chan int {
		done := make(chan int, 1)
		go func() {
			resp, err := http.Post("http://"+s.Wasm.Listen, "text/plain", strings.NewReader(do)) //nolint:noctx // it ends by itself
			if err != nil {
				t.Log(err) // whose time is over in the midst of his answer is cut off
				done <- 0
				return
			}
			_ = resp.Body.Close()
			done <- resp.StatusCode
		}()
		return done
	}
	// One sleeps; its instance is made, which is when it has had its turn.
	asleep := begin("w")
	eventually(t, "the sleeper has a place", func() bool { return len(x.places) == 1 })
	if code := <-begin("e"); code != http.StatusOK {
		t.Errorf("beside one that sleeps: %d", code)
	}
	if code := <-asleep; code != http.StatusGatewayTimeout {
		t.Errorf("the sleeper: %d", code)
	}
	eventually(t, "nothing is left of that", func() bool { return len(x.places) == 0 && x.turns.computing() == 0 })
	eventually(t, "all turns are given back", func() bool { return len(x.places) == 0 && x.turns.computing() == 0 })
}

// TestLoopHoldsUpNobody: while one request computes for ever, another instance of the module
// answers the next one.
func TestLoopHoldsUpNobody(t *testing.T) {
	t.Parallel()
	d := newDriver(t, Options{})
	s := specOf(t, testModule(t, "handler"))
	s.Wasm.Timeout, s.CPULimit = 20*time.Second, 1000
	x := startTask(t, d, s)
	ctx, leave := context.WithCancel(t.Context())
	post := func(ctx context.Context, do string) (int, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Wasm.Listen, strings.NewReader(do))
		if err != nil {
			return 0, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	ended := make(chan error, 1)
	go func() {
		_, err := post(ctx, "l")
		ended <- err
	}()
	eventually(t, "it computes", func() bool { return x.turns.computing() == 1 })
	for range 3 {
		if code, err := post(t.Context(), "e"); err != nil || code != http.StatusOK {
			t.Errorf("beside one that computes for ever: %d, %v", code, err)
		}
	}
	if len(ended) > 0 {
		t.Error("the one that computes for ever has ended")
	}
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the client has left, and the answer is %v", err)
	}
	eventually(t, "all turns are given back", func() bool { return x.turns.computing() == 0 && len(x.places) == 0 })
}

// TestTurnsAreLent: a turn is for one at a time, in order, and who had it for too long goes
// on without.
func TestTurnsAreLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o := &turns{most: 1}
		begin := time.Now()
		var mu sync.Mutex // guards order
		var order []string
		run := func(name string, computes time.Duration) {
			go func() {
				x := &turn{of: o, ctx: ctx}
				x.take()
				mu.Lock()
				order = append(order, fmt.Sprintf("%s@%d", name, time.Since(begin).Milliseconds()))
				mu.Unlock()
				time.Sleep(computes)
				x.give()
			}()
			synctest.Wait()
		}
		settle := func(d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(order, want) {
				t.Errorf("they began as %q, want %q", order, want)
			}
			order, begin = nil, time.Now()
		}
		run("a", 40*time.Millisecond)
		run("b", 40*time.Millisecond)
		run("c", 40*time.Millisecond)
		settle(time.Second, "a@0", "b@40", "c@80")
		// What computes long delays the others by a slice, and each more of it by twice that.
		run("long", 10*time.Second)
		run("longer", 10*time.Second)
		run("d", 10*time.Millisecond)
		run("e", 10*time.Millisecond)
		settle(time.Second, "long@0", "longer@100", "d@300", "e@310")
		if n := o.computing(); n != 2 {
			t.Errorf("%d compute", n)
		}
		settle(20 * time.Second)
		if o.computing() != 0 || o.lent != 0 {
			t.Errorf("%d compute, %d turns are lent", o.computing(), o.lent)
		}
		// Who waits no longer is in nobody's way.
		run("f", 50*time.Millisecond)
		gone, leave := context.WithCancel(ctx)
		go (&turn{of: o, ctx: gone}).take()
		synctest.Wait()
		run("g", time.Millisecond)
		leave()
		settle(time.Second, "f@0", "g@50")
	})
}
