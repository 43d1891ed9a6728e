package ingress

import (
	"net/netip"
	"sync"
	"time"
)

// MaxClients of whom a Limit remembers something at a time.
const MaxClients = 16 << 10

// Limit bounds what each client may do, as a bucket of tokens does: burst at once,
// rate a second after that. It is safe for concurrent use.
//
// Of a bucket one needs to know only when it will be full again (the generic cell
// rate algorithm): a client whose time has come is one that nobody remembers.
type Limit struct {
	every time.Duration // one token
	depth time.Duration // that a bucket has when it is full

	mu    sync.Mutex // guards below
	full  map[netip.Addr]time.Time
	swept time.Time // when those that are full were last forgotten
}

// NewLimit makes one of rate (1 or more) a second, burst (1 or more) at once.
func NewLimit(rate, burst int) *Limit {
	every := time.Second / time.Duration(max(rate, 1))
	return &Limit{every: every, depth: every * time.Duration(max(burst, 1)), full: map[netip.Addr]time.Time{}}
}

// Take takes one token of a client. Where there is none it says how long until there
// is one, and takes nothing.
func (l *Limit) Take(client netip.Addr, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	full, known := l.full[client]
	if !known || full.Before(now) {
		full = now
	}
	next := full.Add(l.every)
	if wait = next.Sub(now) - l.depth; wait > 0 {
		return wait, false
	}
	if !known && len(l.full) >= MaxClients && !l.sweepLocked(now) {
		return 0, true // it cannot be remembered: better too much than a stranger's doing
	}
	l.full[client] = next
	return 0, true
}

// sweepLocked forgets clients whose buckets are full, at most once in the time that
// a bucket takes to fill, and says whether there is room now.
func (l *Limit) sweepLocked(now time.Time) bool {
	if now.Sub(l.swept) < l.depth {
		return false
	}
	l.swept = now
	for c, full := range l.full {
		if !full.After(now) {
			delete(l.full, c)
		}
	}
	return len(l.full) < MaxClients
}
