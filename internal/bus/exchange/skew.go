package exchange

import (
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// skewOf is how many reports are compared. A report may be late, by seconds on a
// bad link, which looks like a clock that is behind; the least late of some is
// nearly in time.
const skewOf = 4

// mostSkew is more than any clock differs; a peer may send any number.
const mostSkew = 100 * 365 * 24 * time.Hour

// Skew estimates from its reports how far the clock of a peer is from ours. Its
// zero value knows nothing. It is not safe for concurrent use.
type Skew struct {
	last  [skewOf]time.Duration
	n     int // heard
	shown time.Duration
}

// Heard takes over a report that came now.
func (s *Skew) Heard(r wire.Report, now time.Time) {
	if r.At == 0 {
		return // by an older version
	}
	// Whole seconds were sent, so on average half a second was left out.
	d := time.Unix(r.At, 0).Add(time.Second / 2).Sub(now.Round(0))
	s.last[s.n%skewOf] = min(max(d, -mostSkew), mostSkew)
	s.n++
	best := s.last[0]
	for _, d := range s.last[:min(s.n, skewOf)] {
		best = max(best, d)
	}
	// What is shown stays as it is while it is about right.
	if abs(best-s.shown) > wire.MaxSkew/2 || abs(best) <= wire.MaxSkew != (s.shown == 0) {
		s.shown = 0
		if abs(best) > wire.MaxSkew {
			s.shown = best.Round(time.Second)
		}
	}
}

// Ahead is how far the peer's clock is ahead of ours, negative if it is behind; 0 if
// it differs by no more than wire.MaxSkew, or nothing is known.
func (s *Skew) Ahead() time.Duration { return s.shown }

func abs(d time.Duration) time.Duration { return max(d, -d) }
