package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"runtime"
	"time"
)

const (
	// handshakesPerCPU are worked on at a time for each processor. More would not be
	// done earlier: each would take longer, until all are given up by the other end.
	handshakesPerCPU = 16
	// handshakeSlot is how long one counts at most. A peer that is slow to answer, or
	// never does, keeps nobody out for longer.
	handshakeSlot = 100 * time.Millisecond
	// handshakeWait is how long one waits for its turn. Who waits longer is turned
	// away while the peer has time left to come again.
	handshakeWait = 3 * time.Second
)

// errBusy turns a peer away before anything was computed for it.
var errBusy = errors.New("too many connect at once: this one is to come again later")

// turnstile bounds how many TLS handshakes a server works on at a time. When an
// orchestrator of ten thousand workers starts again all of them knock within seconds,
// and each handshake costs it about a millisecond: worked on all at once, each would
// last longer than anybody waits for it, and none would ever end. Those that wait have
// said hello and cost nothing; those that were turned away come again, later each time
// (redialDelay). Until it is opened all wait: the server's own connections come first.
type turnstile struct {
	opened chan struct{}
	slots  chan struct{}
	wait   time.Duration // handshakeWait
	slot   time.Duration // handshakeSlot
}

func newTurnstile() *turnstile {
	return &turnstile{make(chan struct{}), make(chan struct{}, handshakesPerCPU*runtime.GOMAXPROCS(0)), handshakeWait, handshakeSlot}
}

// open lets the first in. It is called once.
func (t *turnstile) open() { close(t.opened) }

// guard returns a copy of a server's configuration with which handshakes pass the
// turnstile after the peer's hello, before anything is computed.
func (t *turnstile) guard(c *tls.Config) *tls.Config {
	c = c.Clone()
	choose := c.GetConfigForClient
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if err := t.enter(hello.Context()); err != nil {
			return nil, err
		}
		if choose == nil {
			return nil, nil // the configuration itself
		}
		return choose(hello)
	}
	return c
}

// enter waits for the turn of a handshake, which ends with ctx.
func (t *turnstile) enter(ctx context.Context) error {
	patience := time.NewTimer(t.wait)
	defer patience.Stop()
	select {
	case <-t.opened:
	case <-ctx.Done():
		return ctx.Err()
	case <-patience.C:
		return errBusy
	}
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-patience.C:
		return errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, t.slot)
	context.AfterFunc(ctx, func() {
		cancel()
		<-t.slots
	})
	return nil
}
