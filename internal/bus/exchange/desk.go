package exchange

import (
	"context"
	"sync"

	"github.com/verge-edge/verge/internal/bus"
)

// desk works on the requests of many peers at once, on those of one peer one
// after another. A peer waits for an answer before it asks again, so of one that
// does not only the latest request is kept: it can slow down itself, nobody else.
type desk struct {
	work func(ctx context.Context, m bus.Msg)

	mu     sync.Mutex
	next   map[string]*bus.Msg // by peer that is worked for: what it asked since; nil nothing
	closed bool
	all    sync.WaitGroup
}

func newDesk(work func(ctx context.Context, m bus.Msg)) *desk {
	return &desk{work: work, next: map[string]*bus.Msg{}}
}

// take accepts a request; it does not wait.
func (d *desk) take(ctx context.Context, peer string, m bus.Msg) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	if _, busy := d.next[peer]; busy {
		d.next[peer] = &m
		return
	}
	d.next[peer] = nil
	d.all.Go(func() { d.serve(ctx, peer, m) })
}

func (d *desk) serve(ctx context.Context, peer string, m bus.Msg) {
	for {
		d.work(ctx, m)
		d.mu.Lock()
		next := d.next[peer]
		if next == nil || d.closed {
			delete(d.next, peer)
			d.mu.Unlock()
			return
		}
		d.next[peer] = nil
		d.mu.Unlock()
		m = *next
	}
}

// close waits for what is being worked on; nothing new begins.
func (d *desk) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.all.Wait()
}
