package agent

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// countedEngine counts how often it is asked what is new.
type countedEngine struct {
	*fakeEngine
	looks atomic.Int64
}

func (c *countedEngine) State(ctx context.Context, after uint64, wait time.Duration) (engineapi.EngineState, error) {
	c.looks.Add(1)
	return c.fakeEngine.State(ctx, after, wait)
}

// What many instances do at once is told together, and what happens after a quiet time
// without delay.
func TestManyChangesAreToldTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &countedEngine{fakeEngine: newFakeEngine("e1")}
		a := newTestAgent(h)
		h.set("a.b.0", wire.PhasePending)
		first, err := a.client.State(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		a.take(first, true)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); a.watch(ctx, first.Seq) }()
		defer func() { cancel(); <-done }()

		for n := range looksAtOnce - 2 {
			phase := []wire.Phase{wire.PhaseRunning, wire.PhaseExited}[n%2]
			h.set("a.b.0", phase)
			synctest.Wait()
			if got := phases(t, a)["a.b.0"]; got != phase {
				t.Fatalf("change %d: %s is told, want %s at once", n, got, phase)
			}
		}
		const changes, every = 400, 5 * time.Millisecond
		before := h.looks.Load()
		for n := range changes {
			h.set(fmt.Sprintf("a.c.%d", n), wire.PhaseRunning)
			time.Sleep(every)
		}
		time.Sleep(lookAgain)
		synctest.Wait()
		if got := len(phases(t, a)); got != 1+changes {
			t.Errorf("%d are told, want all %d", got, 1+changes)
		}
		if got, most := h.looks.Load()-before, int64(looksAtOnce+changes*every/lookAgain+3); got > most {
			t.Errorf("the engine was asked %d times in %s, want at most %d", got, changes*every, most)
		}
		time.Sleep(looksAtOnce * lookAgain)
		h.set("a.b.0", wire.PhaseRunning)
		synctest.Wait()
		if got := phases(t, a)["a.b.0"]; got != wire.PhaseRunning {
			t.Errorf("after a quiet time %s is told", got)
		}
	})
}

// One instance that is started and ended again and again has nobody to wait for.
func TestOneInstanceIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFakeEngine("e1")
		a := newTestAgent(h)
		h.set("a.b.0", wire.PhasePending)
		first, err := a.client.State(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		a.take(first, true)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); a.watch(ctx, first.Seq) }()
		defer func() { cancel(); <-done }()
		for n := range 20 * looksAtOnce {
			phase := []wire.Phase{wire.PhaseRunning, wire.PhaseExited}[n%2]
			h.set("a.b.0", phase)
			synctest.Wait()
			if got := phases(t, a)["a.b.0"]; got != phase {
				t.Fatalf("change %d: %s is told, want %s at once", n, got, phase)
			}
			time.Sleep(2 * lookAgain / crowd)
		}
	})
}
