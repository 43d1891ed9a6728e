package pki

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
)

const (
	clockFile = "last-time"
	// clockStep is how far a time must be from what is stored to be stored.
	clockStep = time.Hour
	maxClock  = 64
)

// Clock says what time it is for certificates, on a machine whose own clock may
// be wrong: a board without a battery starts in 1970, where no certificate is
// valid, and a clock that once ran ahead must not count for ever.
//
// It knows the clock on the wall, the latest time that it believed before (kept
// in a file), and when the owner's own certificate was made. Where the wall is
// behind what was believed before, one of the two is wrong: a wall from before
// the own certificate is not believed, any other is. Check lets what a peer can
// prove decide otherwise. It is safe for concurrent use.
type Clock struct {
	path string
	keep bool                 // whether what is believed is stored
	wall func() time.Time     // can be set, by anyone at any time
	mono func() time.Duration // since some moment; cannot be set

	mu      sync.Mutex    // guards below
	stored  time.Time     // what the file holds, zero for nothing
	last    time.Time     // believed when mono was base
	base    time.Duration // see last
	made    time.Time     // when the own certificate was made; zero: there is none
	expires time.Time     // of it
	prefer  trust
}

// trust says which of two times that disagree is believed.
type trust int

const (
	trustNeither trust = iota // see Clock
	trustWall
	trustMemory
)

// NewClock is OpenClock with another source of time, for tests: wall is the
// machine's clock, mono the time since any moment, which no setting changes.
func NewClock(dir string, wall func() time.Time, mono func() time.Duration) *Clock {
	return newClock(dir, true, wall, mono)
}

// OpenClock makes the clock of a node from the time that is stored in dir, which
// need not exist. That it cannot be read is no reason not to start.
func OpenClock(dir string) *Clock { return newClock(dir, true, wallNow, monoNow) }

// ReadClock is OpenClock for a process that only reads what another one stores.
func ReadClock(dir string) *Clock { return newClock(dir, false, wallNow, monoNow) }

var processStart = time.Now()

func wallNow() time.Time     { return time.Now().Round(0) } // drops the monotonic reading
func monoNow() time.Duration { return time.Since(processStart) }

func newClock(dir string, keep bool, wall func() time.Time, mono func() time.Duration) *Clock {
	c := &Clock{path: filepath.Join(dir, clockFile), keep: keep, wall: wall, mono: mono}
	c.Reload()
	return c
}

// Reload reads again what is stored.
func (c *Clock) Reload() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored = readClock(c.path)
	c.last, c.base = c.stored, c.mono()
	c.prefer = trustNeither
}

// readClock returns the zero time for a missing or damaged file.
func readClock(path string) time.Time {
	data, err := atomicfile.ReadBounded(path, maxClock)
	if err != nil {
		return time.Time{}
	}
	last, err := time.Parse(time.RFC3339, strings.TrimSpace(string(data)))
	if err != nil {
		return time.Time{}
	}
	return last
}

// Now is what the time is believed to be. A nil Clock is the machine's.
func (c *Clock) Now() time.Time {
	if c == nil {
		return wallNow()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, _ := c.candidatesLocked()
	return now
}

// candidatesLocked are the time that is believed and, where the clock on the
// wall and memory disagree, the other one (else zero).
func (c *Clock) candidatesLocked() (believed, other time.Time) {
	wall := c.wall()
	memory := c.last.Add(c.mono() - c.base)
	if c.last.IsZero() || !wall.Before(memory) {
		return wall, time.Time{}
	}
	if c.prefer == trustMemory || (c.prefer == trustNeither && wall.Before(c.made)) {
		return memory, wall
	}
	return wall, memory
}

// Check calls verify with the time that is believed. Where that is refused for
// the time alone, and the clock on the wall and memory disagree, it is called
// with the other time, and that one is believed from then on if it is accepted:
// who can show a certificate of the own authority knows what time it is.
func (c *Clock) Check(verify func(at time.Time) error) error {
	if c == nil {
		return verify(wallNow())
	}
	c.mu.Lock()
	believed, other := c.candidatesLocked()
	c.mu.Unlock()
	err := verify(believed)
	if other.IsZero() || (err != nil && !isTimeError(err)) {
		return err
	}
	otherErr := verify(other)
	if (err == nil) == (otherErr == nil) {
		return err // it says nothing about which is right
	}
	if err != nil {
		believed = other
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.prefer = trustWall; believed.After(c.wall()) {
		c.prefer = trustMemory
	}
	c.storeLocked(believed)
	return nil
}

// isTimeError: a certificate has expired or is not valid yet.
func isTimeError(err error) bool {
	var invalid x509.CertificateInvalidError
	return errors.As(err, &invalid) && invalid.Reason == x509.Expired
}

// Own tells the clock which certificate its owner has, at every start and after
// every renewal, and stores the time that is believed if it is well after what
// was stored: at a start in most cases, never while nothing happens.
func (c *Clock) Own(cert *x509.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made, c.expires = madeAt(cert), cert.NotAfter
	if c.last.IsZero() && c.wall().Before(c.made) {
		// Nothing was ever stored, and the clock is behind that of the authority.
		c.last, c.base = c.made, c.mono()
	}
	if now, other := c.candidatesLocked(); other.IsZero() || now.After(other) {
		c.storeLocked(now)
	}
}

// madeAt is when an authority of this package made a certificate.
func madeAt(cert *x509.Certificate) time.Time { return cert.NotBefore.Add(backdate) }

func (c *Clock) storeLocked(now time.Time) {
	// A time beyond anything that the certificate could still be of use for is
	// more likely that of a clock that runs ahead.
	if !c.keep || now.Sub(c.stored).Abs() < clockStep || now.After(c.expires.Add(RenewGrace)) {
		return
	}
	now = now.UTC().Truncate(time.Second)
	// Losing this write costs what the file protects from, once.
	_ = os.MkdirAll(filepath.Dir(c.path), 0o700)
	if atomicfile.Write(c.path, []byte(now.Format(time.RFC3339)+"\n"), 0o600) == nil {
		c.stored = now
		c.last, c.base = now, c.mono()
	}
}
