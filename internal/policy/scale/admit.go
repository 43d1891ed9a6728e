package scale

import (
	"math"
	"time"
)

// Load is what a router knows of one replica when it admits a request.
type Load struct {
	// Ahead is how many requests are served before a new one, including running ones.
	Ahead int
	// RPS is the capacity of the replica, 0 if unknown.
	RPS float64
	// Concurrency is how many requests it executes at once, 0 for any number; Exec how long one
	// takes, 0 if unknown.
	Concurrency int
	Exec        time.Duration
	// Start is the time until it can execute a request: 0 if it runs.
	Start time.Duration
}

// Wait is how long a request would wait at this replica before it is executed; 0 if nothing is
// known, so that no request is rejected for that.
func (l Load) Wait() time.Duration { return l.Start + l.queued() }

// queued is the part of Wait due to requests ahead.
func (l Load) queued() time.Duration {
	if l.Concurrency == 0 || l.Ahead < l.Concurrency || !(l.RPS > 0) {
		return 0
	}
	s := float64(l.Ahead-l.Concurrency+1) / l.RPS
	return time.Duration(min(s, 1e6) * float64(time.Second))
}

// Admit says whether one of the n replicas can answer a request in the time left of its objective.
// If not, retry is when one could, at least a second, rounded up to whole seconds for Retry-After.
// Without an objective (left 0) or replicas everything is admitted: the holder of requests that
// wait for a replica has its own bounds.
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
			// It has a place and is slower than the objective: the objective is wrong. Otherwise no
			// sleeping replica would ever be started.
			return true, 0
		}
		over = min(over, w-left)
	}
	if over == math.MaxInt64 {
		return true, 0
	}
	return false, max(over.Truncate(time.Second)+time.Second, time.Second)
}
