package pki

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
)

const (
	clockFile = "last-time"
	// clockStep is how much newer a time must be before it is written again.
	clockStep = time.Hour
	maxClock  = 64
)

// SaneNow returns now, or the last time that it stored in dir if that is later:
// a board without a battery starts in 1970, where no certificate is valid. Call
// it at start. It writes at most once per hour of clock time; that it cannot
// read or write the file is no reason not to start, so there is no error. After
// a clock that ran ahead by mistake, remove the file last-time in dir.
func SaneNow(dir string, now time.Time) time.Time {
	path := filepath.Join(dir, clockFile)
	last := readClock(path)
	if now.Before(last) {
		return last
	}
	if now.Sub(last) >= clockStep {
		// Losing this write costs what the file protects from, once.
		_ = os.MkdirAll(dir, 0o700)
		_ = atomicfile.Write(path, []byte(now.UTC().Format(time.RFC3339)+"\n"), 0o600)
	}
	return now
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

// NewClock is a clock for Identity that starts at SaneNow and goes on from
// there; as soon as the machine's clock is later (it was set), that one counts.
func NewClock(dir string) func() time.Time {
	start := time.Now()
	return clockFrom(start, SaneNow(dir, start.Round(0)), time.Now)
}

// clockFrom goes on from sane, which it was at start. sane must have no
// monotonic reading (Round), so that comparing it means the clock on the wall.
func clockFrom(start, sane time.Time, read func() time.Time) func() time.Time {
	return func() time.Time {
		now := read()
		// Sub uses the monotonic reading: steps of the clock don't enter.
		reckoned := sane.Add(now.Sub(start))
		if wall := now.Round(0); wall.After(reckoned) {
			return wall
		}
		return reckoned
	}
}
