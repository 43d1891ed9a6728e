package rival

import (
	"math"
	"time"
)

// Parameters of rate control (section 4 of the paper, and the code of its authors). Rates are requests per
// interval.
const (
	interval   = 20 * time.Millisecond
	beta       = 0.2  // of the rate is left after a decrease
	gamma      = 4e-6 // per ms³, for a saddle of about 100 ms
	maxStep    = 10
	hysteresis = 4 * interval // without a decrease after an increase
)

// Those that only the code has.
const (
	firstRate = 10  // also where the first saddle is
	leastRate = 0.1 // five requests per second, so that a pod is never given up
	burst     = 10  // most tokens
	// smooth is the weight of an interval in the rate of answers.
	smooth = 1.0 / 20
)

// limiter is the rate control towards one pod (section 3.2).
type limiter struct {
	rate, saddle         float64
	decreased, increased time.Duration

	tokens float64
	filled time.Duration

	received float64 // smoothed, per interval
	count    int     // in the present interval
	began    int64   // index of the present interval
}

func newLimiter(now time.Duration) limiter {
	return limiter{rate: firstRate, saddle: firstRate, decreased: now, increased: now, tokens: burst, filled: now,
		received: firstRate, began: int64(now / interval)}
}

// fill adds the tokens of the time since the last call.
func (l *limiter) fill(now time.Duration) {
	l.tokens = min(burst, l.tokens+l.rate*float64(now-l.filled)/float64(interval))
	l.filled = now
}

// wait returns the time until a request is within the rate, 0 for now.
func (l *limiter) wait(now time.Duration) time.Duration {
	l.fill(now)
	if l.tokens >= 1 {
		return 0
	}
	return time.Duration((1-l.tokens)/l.rate*float64(interval)) + 1
}

// take counts a request that is sent.
func (l *limiter) take(now time.Duration) {
	l.fill(now)
	l.tokens--
}

// answered counts an answer and adapts the rate (algorithm 2).
func (l *limiter) answered(now time.Duration) {
	l.fill(now)
	l.measure(now)
	l.count++
	switch {
	case l.rate > l.received && now-l.increased > hysteresis:
		l.saddle, l.decreased = l.rate, now
		l.rate = max(leastRate, l.rate*beta)
	case l.rate < l.received:
		l.increased = now
		l.rate = min(l.rate+maxStep, max(leastRate, cubic(now-l.decreased, l.saddle)))
	}
}

// measure ends intervals that are over.
func (l *limiter) measure(now time.Duration) {
	at := int64(now / interval)
	if at == l.began {
		return
	}
	l.received += smooth * (float64(l.count) - l.received)
	l.received *= math.Pow(1-smooth, float64(at-l.began-1)) // nothing came in those between
	l.began, l.count = at, 0
}

// cubic is the rate at a time since the last decrease, from this rate: it grows fast towards it, is flat
// around it, and then grows fast again.
func cubic(since time.Duration, saddle float64) float64 {
	ms := float64(since) / float64(time.Millisecond)
	d := ms - math.Cbrt(beta*saddle/gamma)
	return gamma*d*d*d + saddle
}
