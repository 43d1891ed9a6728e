package local

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// InFlight counts the proxied connections to each local instance.
type InFlight struct {
	mu sync.Mutex // guards below
	by map[wire.InstanceID]*load
	// last is when the last one of an instance ended.
	last map[wire.InstanceID]time.Time
}

// NewInFlight counts nothing yet.
func NewInFlight() InFlight {
	return InFlight{by: map[wire.InstanceID]*load{}, last: map[wire.InstanceID]time.Time{}}
}

// maxLast bounds what is remembered of former instances.
const maxLast = 8192

// load of one instance; it is in the map only while n > 0.
type load struct {
	n      int
	probes int           // of n: what only looks whether somebody answers is no use
	idle   chan struct{} // closed when n becomes 0; nil: nobody waits for that
}

// held is one connection or request that is counted.
type held struct {
	f     *InFlight
	id    wire.InstanceID
	load  *load
	probe bool
}

// Add counts one more and returns what ends it, to be called once. It is called
// before Local.Target is asked: whoever marks an instance as draining first and
// waits for idle then, misses no connection.
func (f *InFlight) Add(id wire.InstanceID) (done func()) {
	h := f.begin(id, false)
	return func() { h.end(time.Now()) }
}

// begin is Add, to be ended by end; a probe counts as a request without a client, and does
// not keep an instance awake.
func (f *InFlight) begin(id wire.InstanceID, probe bool) held {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.by[id]
	if l == nil {
		l = &load{}
		f.by[id] = l
	}
	l.n++
	if probe {
		l.probes++
	}
	return held{f, id, l, probe}
}

func (h held) end(now time.Time) {
	f, l := h.f, h.load
	f.mu.Lock()
	defer f.mu.Unlock()
	if h.probe {
		l.probes--
	} else if l.n-1 == l.probes {
		if len(f.last) >= maxLast {
			clear(f.last)
		}
		f.last[h.id] = now
	}
	if l.n--; l.n == 0 {
		delete(f.by, h.id)
		if l.idle != nil {
			close(l.idle)
		}
	}
}

func (f *InFlight) count(id wire.InstanceID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.by[id]; l != nil {
		return l.n
	}
	return 0
}

// Drained is closed once nothing of id is in flight.
func (f *InFlight) Drained(id wire.InstanceID) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.by[id]; l != nil {
		if l.idle == nil {
			l.idle = make(chan struct{})
		}
		return l.idle
	}
	idle := make(chan struct{})
	close(idle)
	return idle
}

// InFlight returns how many proxied connections an instance of this worker has,
// including those that a gateway keeps open between requests.
func (s *Endpoints) InFlight(id wire.InstanceID) int { return s.inflight.count(id) }

// LastRequest returns when an instance of this worker was last used: now if it is in use, zero if
// it never was or that is unknown. On ports that are routed by request, requests count, and
// whatever they opened without an end (an upgraded connection, a stream); kept connections do
// not. On other ports connections count.
func (s *Endpoints) LastRequest(id wire.InstanceID) time.Time {
	s.inflight.mu.Lock()
	defer s.inflight.mu.Unlock()
	if l := s.inflight.by[id]; l != nil && l.n > l.probes {
		return time.Now()
	}
	return s.inflight.last[id]
}

// Drained returns a channel that is closed once no proxied connection to the
// instance is left; it is closed already if there is none. Let Local.Target
// refuse the instance first, then call LocalChanged and Drained.
func (s *Endpoints) Drained(id wire.InstanceID) <-chan struct{} { return s.inflight.Drained(id) }

// WaitIdle waits until the instance has no proxied connection, or ctx ends.
func (s *Endpoints) WaitIdle(ctx context.Context, id wire.InstanceID) error {
	select {
	case <-s.Drained(id):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the %d connections of %s to end: %w", s.InFlight(id), id, ctx.Err())
	}
}
