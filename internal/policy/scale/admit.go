package scale

import (
	"math"
	"time"
)

// Load is what a router knows of one replica when it admits a request.
type Load struct {
	// Ahead are the requests that are served before a new one would be, those that
	// run among them.
	Ahead int
	// RPS is what the replica can do, 0 where it is not known.
	RPS float64
	// Concurrency is how many it executes at once, 0 for any number; Exec how long
	// that takes, 0 where it is not known.
	Concurrency int
	Exec        time.Duration
	// Start is what it takes until it executes anything: 0 for one that runs.
	Start time.Duration
}

// Wait is how long a request would wait at this replica before it is executed; 0
// where nothing is known, which is no reason to turn anybody away.
func (l Load) Wait() time.Duration { return l.Start + l.queued() }

// queued is the part of Wait that those ahead are the reason for.
func (l Load) queued() time.Duration {
	if l.Concurrency == 0 || l.Ahead < l.Concurrency || !(l.RPS > 0) {
		return 0
	}
	s := float64(l.Ahead-l.Concurrency+1) / l.RPS
	return time.Duration(min(s, 1e6) * float64(time.Second))
}

// Admit says whether a request that has left of its objective can still be answered
// in time by one of the n replicas. If not, retry is when one could, at least a second:
// what Retry-After says, rounded up to its whole seconds. Without an objective, left
// 0, everything is admitted; so is everything where there is no replica, because
// whoever holds requests until there is one has his own bounds.
func Admit(left time.Duration, n int, replica func(i int) Load) (ok bool, retry time.Duration) {
	if left <= 0 {
		return true, 0
	}
	over := time.Duration(math.MaxInt64)
	for i := range n {
		l := replica(i)
		w := l.Wait() + l.Exec
		if w <= left {
			return true, 0
		}
		if l.Start+l.Exec > left && l.queued() == 0 {
			// It has a place and is slower than the objective: that is the objective's
			// mistake. Nobody would ever start one that sleeps otherwise.
			return true, 0
		}
		over = min(over, w-left)
	}
	if over == math.MaxInt64 {
		return true, 0
	}
	return false, max(over.Truncate(time.Second)+time.Second, time.Second)
}
