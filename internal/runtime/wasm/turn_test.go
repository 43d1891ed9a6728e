package wasm

import (
	"net/http"
	"strings"
	"testing"
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
	if cap(x.turns) != 1 {
		t.Fatalf("%d compute at a time", cap(x.turns))
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
	eventually(t, "nothing is left of that", func() bool { return len(x.places) == 0 && len(x.turns) == 0 })
	// One computes for as long as it may. Who comes then waits for that.
	seen := time.Now()
	busy := begin("l")
	eventually(t, "it computes", func() bool { return len(x.turns) == 1 })
	waits := begin("e")
	if code := <-busy; code != http.StatusGatewayTimeout {
		t.Errorf("what computes for ever: %d", code)
	}
	code := <-waits
	if took := time.Since(seen); code == http.StatusOK && took < most {
		t.Errorf("the other was answered after %v, while the first computed", took)
	}
	eventually(t, "all turns are given back", func() bool { return len(x.places) == 0 && len(x.turns) == 0 })
}
