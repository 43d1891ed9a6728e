package scale

import (
	"math"
	"time"
)

const (
	// sure is the confidence from which a rate is taken for all that a replica can do.
	sure = 0.99
	// slowAfter are the intervals after which a replica that is always full, and does
	// less than it could, is believed to have become slower.
	slowAfter = 10
	// recovery is by how much of itself a capacity grows per interval in which nothing
	// waits and the execution time says that it is too small: a replica that was slow
	// once gets work again, and one whose times grow with its load is not overrun.
	recovery = 0.002
)

// Capacity is what one replica can do, as its reports say. The zero value knows
// nothing. It is the estimate of Mu (section 3.4) with three corrections: it is never
// more than its places allow, it goes down as well as up, and it stays finite.
type Capacity struct {
	// learnt is the paper's estimate, 0 for none; bound is concurrency/exec, 0 for
	// none.
	learnt, bound         float64
	savedRatio, savedRate float64
	// full are the intervals in a row that were full and slower than learnt, best the
	// most that was done in one of them.
	full int
	best float64
	// counted is when the last interval was counted.
	counted time.Time
}

// Observe takes a report. Concurrency is how many requests the replica takes at a
// time, 0 for any number. It reports whether the report was one: what is not finite
// or below zero is ignored.
func (c *Capacity) Observe(r Report, concurrency int, now time.Time) bool {
	if !r.valid() {
		return false
	}
	c.bound = 0
	if concurrency > 0 && r.Exec > 0 {
		c.bound = float64(concurrency) / r.Exec.Seconds()
	}
	if r.Rate == 0 {
		return true // before its first interval, or idle: only the bound is news
	}
	switch {
	case r.Confidence > 0 && (r.Confidence >= c.savedRatio || r.Rate >= c.savedRate):
		c.learn(r.Rate/r.Confidence, r)
	case r.Confidence == 0 && r.Rate >= c.savedRate:
		// It was never full: all that is known is that it can do at least this.
		c.learn(max(r.Rate, c.bound), r)
	}
	if interval := min(max(10*r.Exec, minInterval), maxInterval); now.Sub(c.counted) >= interval {
		c.counted = now
		c.age(r)
	}
	return true
}

func (c *Capacity) learn(value float64, r Report) {
	if math.IsInf(value, 0) {
		return // a rate over a ratio next to nothing
	}
	if c.bound > 0 {
		value = min(value, c.bound)
	}
	if r.Confidence >= sure && value < c.learnt {
		return // that it is slower must be seen more than once: age
	}
	c.learnt, c.savedRatio, c.savedRate = value, r.Confidence, r.Rate
}

// age is called once per interval: it lets what is learnt go down, and come back.
func (c *Capacity) age(r Report) {
	switch {
	case r.Confidence >= sure && r.Rate < c.learnt:
		c.full++
		c.best = max(c.best, r.Rate)
		if c.full >= slowAfter {
			c.learnt, c.savedRatio, c.savedRate = c.best, r.Confidence, r.Rate
			c.full, c.best = 0, 0
		}
		return
	case r.Confidence == 0 && c.learnt < c.bound:
		c.learnt = min(c.bound, c.learnt*(1+recovery))
	}
	c.full, c.best = 0, 0
}

// RPS are the requests per second that the replica can do; false as long as nothing
// is known. A replica without a bound that was never full is not known either: what
// it did, it could, and nothing is said about more.
func (c *Capacity) RPS() (float64, bool) {
	switch {
	case c.learnt == 0:
		return c.bound, c.bound > 0
	case c.bound == 0:
		return c.learnt, c.savedRatio > 0
	}
	return min(c.learnt, c.bound), true
}
