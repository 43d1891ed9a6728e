package wasm

import (
	"context"
	goruntime "runtime"
)

// processors is how many runs of a task compute at a time: as many processors as its
// limit begins (in thousandths, 0: none), and never all of those that this process has,
// so that no function alone keeps the routers from theirs.
func processors(limit int64, have int) int {
	most := max(have-1, 1)
	if limit <= 0 {
		return most
	}
	return int(min((limit+999)/1000, int64(most)))
}

// newTurns are the turns of a task, which its runs take one after another.
func newTurns(limit int64) chan struct{} {
	return make(chan struct{}, processors(limit, goruntime.GOMAXPROCS(0)))
}

// turn is what a run has while it computes, and gives back while it waits for somebody.
// It belongs to the goroutine of the run. nil is one that is always had.
type turn struct {
	of   chan struct{}
	ctx  context.Context
	held bool
}

// take waits for a turn, for as long as the request may last. Who gets none then goes
// on without: it is ended at its next step anyway.
func (t *turn) take() {
	if t == nil || t.held {
		return
	}
	select {
	case t.of <- struct{}{}:
		t.held = true
	case <-t.ctx.Done():
	}
}

func (t *turn) give() {
	if t != nil && t.held {
		<-t.of
		t.held = false
	}
}
