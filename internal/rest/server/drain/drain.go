// Package drain ends a server in order: what waits is answered at once, what has begun is
// finished, and nothing new begins.
package drain

import (
	"context"
	"net/http"
	"sync"

	"github.com/verge-edge/verge/internal/wire"
)

// Drain counts the requests that are being answered, so that the end of a server can
// wait for them while it still answers those who ask whether it is there.
type Drain struct {
	begun chan struct{} // closed by Begin
	once  sync.Once

	mu    sync.Mutex // guards below
	n     int
	ended bool
	idle  chan struct{} // closed when n becomes 0 after Wait
}

// New is one that has not begun.
func New() *Drain { return &Drain{begun: make(chan struct{})} }

// Begin ends what waits.
func (d *Drain) Begin() { d.once.Do(func() { close(d.begun) }) }

// Begun is closed by Begin.
func (d *Drain) Begun() <-chan struct{} { return d.begun }

// Enter counts a request; it is false once the end has begun.
func (d *Drain) Enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return false
	}
	d.n++
	return true
}

// Leave is the end of a request.
func (d *Drain) Leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n--; d.n == 0 && d.ended {
		close(d.idle)
	}
}

// Wait lets nothing new enter and waits for what has, or for the end of ctx.
func (d *Drain) Wait(ctx context.Context) {
	d.mu.Lock()
	if !d.ended {
		d.ended, d.idle = true, make(chan struct{})
		if d.n == 0 {
			close(d.idle)
		}
	}
	idle := d.idle
	d.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// Hold runs a long poll that ends early when the drain begins.
func Hold[T any](ctx context.Context, d *Drain, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	defer func() {
		cancel()
		<-done
	}()
	go func() {
		defer close(done)
		select {
		case <-d.begun:
			cancel()
		case <-ctx.Done():
		}
	}()
	v, err := f(ctx)
	select {
	case <-d.begun:
		if err != nil {
			return v, Problem("the wait was ended")
		}
	default:
	}
	return v, err
}

// Problem is the answer of a server that is draining.
func Problem(detail string) *wire.Problem {
	return wire.Problemf(http.StatusServiceUnavailable, "shutting-down", "try again in a moment",
		"this role is shutting down", "%s", detail)
}
