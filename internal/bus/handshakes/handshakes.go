package handshakes

import (
	"context"
	"crypto/tls"
	"errors"
	"runtime"
	"sync"
	"time"
)

const (
	// handshakesPerCPU are worked on at a time for each processor. More would not be
	// done earlier: each would take longer, until all are given up by the other end.
	handshakesPerCPU = 16
	// handshakeSlot is how long one counts at most, where those that come to an end take
	// less than a quarter of that, and mostSlot where they do not: then it is not the peer
	// that is slow, but this machine. A peer that is slow to answer, or never does, keeps
	// nobody out for longer.
	handshakeSlot = 100 * time.Millisecond
	mostSlot      = 5 * time.Second
	mostRest      = time.Second // of a slot after a handshake
	// looks is the time between two looks whether a peer that waits is still there.
	looks = 2 * time.Second
)

// How long a peer waits for its turn, at most. Who waits longer is turned away while it has
// time left to come again.
const (
	// Short is for peers that give up after ten seconds.
	Short = 3 * time.Second
	// Long is for peers that wait half a minute, as workers do (busconn): to wait costs them
	// and us nothing, and to come again half of what the handshake itself does.
	Long = 20 * time.Second
)

// errBusy turns a peer away before anything was computed for it.
var errBusy = errors.New("too many connect at once: this one is to come again later")

// Limiter bounds how many TLS handshakes a server works on at a time. When an
// orchestrator of ten thousand workers starts again all of them knock within seconds,
// and each handshake costs it about a millisecond: worked on all at once, each would
// last longer than anybody waits for it, and none would ever end. Those that wait have
// said hello and cost nothing; those that were turned away come again, later each time
// (redialDelay). Until it is opened all wait: the server's own connections come first.
type Limiter struct {
	opened chan struct{}
	slots  chan struct{}
	wait   time.Duration
	slot   time.Duration // handshakeSlot

	mu sync.Mutex
	// typical is how long one takes that comes to an end.
	typical time.Duration
}

// New returns a limiter that lets nobody in yet, for peers that wait for Short or Long.
func New(wait time.Duration) *Limiter {
	return &Limiter{
		opened: make(chan struct{}), slots: make(chan struct{}, handshakesPerCPU*runtime.GOMAXPROCS(0)),
		wait: wait, slot: handshakeSlot,
	}
}

// Open lets the first in. It is called once.
func (t *Limiter) Open() { close(t.opened) }

// Guard returns a copy of a server's configuration with which handshakes pass the
// limiter after the peer's hello, before anything is computed.
func (t *Limiter) Guard(c *tls.Config) *tls.Config {
	c = c.Clone()
	choose := c.GetConfigForClient
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if err := t.enter(hello.Context(), func() bool { return left(hello.Conn) }); err != nil {
			return nil, err
		}
		chosen := c
		if choose != nil {
			other, err := choose(hello)
			if err != nil {
				return nil, err
			}
			if other != nil {
				chosen = other
			}
		}
		// Who has got so far has a certificate that counts, and the rest is quick.
		chosen, began := chosen.Clone(), time.Now()
		verify := chosen.VerifyConnection
		chosen.GetConfigForClient = nil // it was asked
		chosen.VerifyConnection = func(state tls.ConnectionState) error {
			if verify != nil {
				if err := verify(state); err != nil {
					return err
				}
			}
			t.took(time.Since(began))
			return nil
		}
		return chosen, nil
	}
	return c
}

// took notes how long a handshake has taken that comes to an end.
func (t *Limiter) took(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.typical += (d - t.typical) / 16
}

// counts is how long a handshake that begins now counts at most. On a machine that has
// no time for them all take long, and would be worked on with ever more others beside
// them if their slots were given to the next ones meanwhile.
func (t *Limiter) counts() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(max(t.slot, 4*t.typical), max(t.slot, mostSlot))
}

// rests is how long a slot rests after a handshake: what comes then, a token that is
// checked and an account that takes a connection on, is about as much again, and where
// nobody waits for that those who are in early are given up by their peers.
func (t *Limiter) rests() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(3*t.typical, mostRest)
}

// errLeft is for a peer that has not waited.
var errLeft = errors.New("it did not wait for its turn")

// enter waits for the turn of a handshake, which ends with ctx: who came first is first. left says
// whether the peer has closed its connection meanwhile: nothing is computed for it then.
func (t *Limiter) enter(ctx context.Context, left func() bool) error {
	waits, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer time.AfterFunc(t.wait, func() { end(errBusy) }).Stop()
	defer every(waits, looks, func() {
		if left() {
			end(errLeft)
		}
	})()
	select {
	case <-t.opened:
	case <-waits.Done():
		return context.Cause(waits)
	}
	select {
	case t.slots <- struct{}{}:
	case <-waits.Done():
		return context.Cause(waits)
	}
	ctx, cancel := context.WithTimeout(ctx, t.counts())
	context.AfterFunc(ctx, func() {
		cancel()
		time.AfterFunc(t.rests(), func() { <-t.slots })
	})
	return nil
}

// every calls f again and again until ctx is done or stop is called. It needs no goroutine while it
// waits: thousands may.
func every(ctx context.Context, d time.Duration, f func()) (stop func() bool) {
	var timer *time.Timer
	set := make(chan struct{})
	timer = time.AfterFunc(d, func() {
		<-set
		if f(); ctx.Err() == nil {
			timer.Reset(d)
		}
	})
	close(set)
	return timer.Stop
}
