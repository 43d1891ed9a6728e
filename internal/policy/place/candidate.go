package place

import (
	"cmp"
	"time"

	"github.com/verge-edge/verge/internal/policy/place/amount"
)

// maxRanked is how many of the best a record shows.
const maxRanked = 5

// candidate is a feasible worker in the running.
type candidate struct {
	view    *WorkerView
	has     int           // instances of the service
	same    int           // has, zero without spread or if the score comes first
	latency time.Duration // expected, zero if it does not count
	score   float64       // by the scheduler: smaller is better
	// packed is the rom score if that breaks ties of score.
	packed float64
	after  int                   // has, if the score comes first
	left   [amount.Kinds]float64 // the terms of the score
	key    uint64                // breaks ties: ring distance from the instance to the worker
	// Whether a plugin named the worker for this instance, and its score, highest first.
	named  bool
	advice float64
}

// compare orders by the scheduler's criteria, without the ring: negative if c is better
// than o.
func (c *candidate) compare(o *candidate) int {
	switch {
	case c.same != o.same:
		return c.same - o.same
	case c.latency < o.latency:
		return -1
	case c.latency > o.latency:
		return 1
	case c.score < o.score:
		return -1
	case c.score > o.score:
		return 1
	case c.packed != o.packed:
		return cmp.Compare(c.packed, o.packed)
	}
	return c.after - o.after
}

func (c *candidate) before(o *candidate) bool {
	if r := c.compare(o); r != 0 {
		return r < 0
	}
	if c.key != o.key {
		return c.key < o.key
	}
	return c.view.ID < o.view.ID
}

// insert puts c in its place among the best n and returns the new n.
func insert(best *[maxRanked]candidate, n int, c candidate) int {
	if n == maxRanked {
		if !c.before(&best[n-1]) {
			return n
		}
		n--
	}
	i := n
	for ; i > 0 && c.before(&best[i-1]); i-- {
		best[i] = best[i-1]
	}
	best[i] = c
	return n + 1
}
