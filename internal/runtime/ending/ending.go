// Package ending is the end of a task, for drivers: one goroutine watches for it,
// any number wait for it and are always told the same; and what signals are called.
package ending

import (
	"context"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix" // names of signals

	"github.com/verge-edge/verge/internal/wire"
)

// Ending of one task.
type Ending struct {
	over    chan struct{} // closed once exit is set
	exit    wire.Exit
	stopped chan struct{} // closed when nobody watches any more
	closed  error
}

// New is that of a task that runs. closed is what Wait returns once nobody watches
// it any more.
func New(closed error) *Ending {
	return &Ending{over: make(chan struct{}), stopped: make(chan struct{}), closed: closed}
}

// Set says how the task has ended, once.
func (e *Ending) Set(exit wire.Exit) {
	e.exit = exit
	close(e.over)
}

// Stop says that nobody watches any more, once, after Set if that is called at all.
func (e *Ending) Stop() { close(e.stopped) }

// Over says whether the task has ended.
func (e *Ending) Over() bool {
	select {
	case <-e.over:
		return true
	default:
		return false
	}
}

// Reached waits until the task has ended or nobody watches any more. The error is
// that of ctx.
func (e *Ending) Reached(ctx context.Context) error {
	select {
	case <-e.over:
	case <-e.stopped:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Wait is that of runtime.Task.
func (e *Ending) Wait(ctx context.Context) (wire.Exit, error) {
	err := e.Reached(ctx)
	switch {
	case e.Over():
		return e.exit, nil
	case err != nil:
		return wire.Exit{}, err
	}
	return wire.Exit{}, e.closed
}

// SignalName is the name without SIG, or the number.
func SignalName(s syscall.Signal) string {
	name := unix.SignalName(s)
	if len(name) > 3 {
		return name[3:]
	}
	return fmt.Sprint(int(s))
}

// Signal of a name without SIG.
func Signal(name string) (syscall.Signal, error) {
	if sig := unix.SignalNum("SIG" + name); sig != 0 {
		return sig, nil
	}
	return 0, fmt.Errorf("there is no signal %q; use a name without SIG, like TERM", name)
}
