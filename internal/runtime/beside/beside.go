// Package beside counts the commands that run beside a task, for drivers: what
// ends the task ends them too, and none begins after that.
package beside

import (
	"context"
	"fmt"
	"sync"

	"github.com/verge-edge/verge/internal/runtime"
)

// Commands that run beside a task, so that they end with it. The zero value has none.
type Commands struct {
	running sync.WaitGroup

	mu    sync.Mutex // guards below
	ended bool
	next  int
	stops map[int]context.CancelCauseFunc
}

// Enter announces a command. Its context ends with the task, too.
func (b *Commands) Enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return nil, nil, runtime.ErrGone
	}
	ctx, stop := context.WithCancelCause(ctx)
	if b.stops == nil {
		b.stops = map[int]context.CancelCauseFunc{}
	}
	id := b.next
	b.next++
	b.stops[id] = stop
	b.running.Add(1)
	return ctx, func() {
		stop(nil)
		b.mu.Lock()
		delete(b.stops, id)
		b.mu.Unlock()
		b.running.Done()
	}, nil
}

// Stop begins the end of all commands, and lets no more begin.
func (b *Commands) Stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for _, stop := range b.stops {
		stop(runtime.ErrGone)
	}
}

// Wait waits for the end of all commands, after Stop.
func (b *Commands) Wait(ctx context.Context) error {
	b.mu.Lock()
	idle := len(b.stops) == 0
	b.mu.Unlock()
	if idle {
		return nil
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		b.running.Wait() // each ends soon: its context has
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("commands beside it do not end: %w", ctx.Err())
	}
}
