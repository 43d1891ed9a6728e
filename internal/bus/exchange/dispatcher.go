package exchange

import (
	"context"
	"strings"
	"sync"

	"github.com/verge-edge/verge/internal/bus"
)

// dispatcher works on the requests of many peers at once, on those of one peer one
// after another. A peer waits for an answer before it asks again, so of one that
// does not only the latest request is kept: it can slow down itself, nobody else.
//
// Who has worked waits for more, up to keep of them: a new goroutine for each of a thousand
// requests a second has to grow its stack each time, an eighth of all that a cluster of
// idle workers computed.
type dispatcher struct {
	work func(ctx context.Context, m bus.Msg)
	keep int
	jobs chan job // taken by those who wait

	mu     sync.Mutex
	next   map[string]*bus.Msg // by peer that is worked for: what it asked since; nil nothing
	idle   int                 // who waits, or is about to
	closed bool
	all    sync.WaitGroup
}

// job is a request of a peer for which nobody works.
type job struct {
	ctx  context.Context
	peer string
	m    bus.Msg
}

func newDispatcher(keep int, work func(ctx context.Context, m bus.Msg)) *dispatcher {
	return &dispatcher{work: work, keep: keep, jobs: make(chan job), next: map[string]*bus.Msg{}}
}

// keepFor is how many are worth keeping at a dispatcher for a subject: where one peer asks
// now and then, as at a root with a thousand clusters, none.
func keepFor(subject string) int {
	if strings.Contains(subject, "*") {
		return 4
	}
	return 0
}

// take accepts a request; it does not wait.
func (d *dispatcher) take(ctx context.Context, peer string, m bus.Msg) {
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
	j := job{ctx, peer, m}
	select {
	case d.jobs <- j:
	default: // nobody waits
		d.all.Go(func() { d.run(j) })
	}
}

// busy says whether somebody works for a peer. It stays as it was found for as long as
// the goroutine that takes requests does not take one of this peer.
func (d *dispatcher) busy(peer string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, busy := d.next[peer]
	return busy
}

// run works on a request, and on more while no more than some wait for them.
func (d *dispatcher) run(j job) {
	for ok := true; ok; {
		d.serve(j)
		d.mu.Lock()
		if d.closed || d.idle >= d.keep {
			d.mu.Unlock()
			return
		}
		d.idle++
		d.mu.Unlock()
		j, ok = <-d.jobs
		d.mu.Lock()
		d.idle--
		d.mu.Unlock()
	}
}

// serve works on a request and on what the peer asked meanwhile.
func (d *dispatcher) serve(j job) {
	ctx, peer, m := j.ctx, j.peer, j.m
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
func (d *dispatcher) close() {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.jobs) // under the mutex: nobody sends any more
	}
	d.mu.Unlock()
	d.all.Wait()
}
