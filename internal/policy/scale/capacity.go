package scale

import (
	"math"
	"time"
)

const (
	// sure is the confidence from which a rate counts as the capacity of a replica.
	sure = 0.99
	// slowAfter is the number of intervals after which a replica that is full and slower than
	// learnt is believed to have become slower.
	slowAfter = 10
	// recovery is by how much of itself a capacity grows per interval in which nothing
	// waits and the execution time says that it is too small: a replica that was slow
	// once gets work again, and one whose times grow with its load is not overrun.
	recovery = 0.002
)

// Capacity estimates the capacity of one replica from its reports. The zero value knows nothing. It
// is the estimate of Mu (section 3.4) with three corrections: it never exceeds what its places
// allow, it can fall as well as rise, and it stays finite.
type Capacity struct {
	// learnt is the paper's estimate, 0 for none; bound is concurrency/exec, 0 for none.
	learnt, bound         float64
	savedRatio, savedRate float64
	// full counts consecutive intervals that were full and slower than learnt, best is the highest
	// rate of them.
	full int
	best float64
	// counted is the time of the last counted interval.
	counted time.Time
}

// Observe takes a report. Concurrency is how many requests the replica takes at a time, 0 for any
// number. It returns whether the report is valid; others are ignored.
func (c *Capacity) Observe(r Report, concurrency int, now time.Time) bool {
	if !r.valid() {
		return false
	}
	c.bound = 0
	if concurrency > 0 && r.Exec > 0 {
		c.bound = float64(concurrency) / r.Exec.Seconds()
	}
	if r.Rate == 0 {
		return true // before its first interval, or idle: only the bound is new
	}
	switch {
	case r.Confidence > 0 && (r.Confidence >= c.savedRatio || r.Rate >= c.savedRate):
		c.learn(r.Rate/r.Confidence, r)
	case r.Confidence == 0 && r.Rate >= c.savedRate:
		// It was never full: this rate is only a lower bound.
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
		return // division by a ratio near zero
	}
	if c.bound > 0 {
		value = min(value, c.bound)
	}
	if r.Confidence >= sure && value < c.learnt {
		return // slowness must be seen more than once: see age
	}
	c.learnt, c.savedRatio, c.savedRate = value, r.Confidence, r.Rate
}

// age is called once per interval: it lets the learnt capacity fall, and recover.
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

// RPS is the capacity in requests per second; false if it is unknown. The capacity of a replica
// without a bound that was never full is unknown too: it may be higher than any rate seen.
func (c *Capacity) RPS() (float64, bool) {
	switch {
	case c.learnt == 0:
		return c.bound, c.bound > 0
	case c.bound == 0:
		return c.learnt, c.savedRatio > 0
	}
	return min(c.learnt, c.bound), true
}
