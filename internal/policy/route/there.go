package route

import (
	"cmp"
	"math"
	"time"
)

// seen is what reports have told of the requests of other routers, beside how many own ones were in
// flight then: means, covariance and variance of the newest seenMemory reports.
type seen struct {
	n, own, others, cov, variance float64
	// lastOwn is how many own ones there were at the newest report.
	lastOwn float64
}

const (
	seenMemory = 64
	// longPast is the age of a report, in times that a request takes, at which it tells nothing.
	longPast = 8
)

func (s *seen) add(own, others float64) {
	s.n = min(s.n+1, seenMemory)
	gain := 1 / s.n
	dx, dy := own-s.own, others-s.others
	s.own += gain * dx
	s.others += gain * dy
	s.cov += gain * ((1-gain)*dx*dy - s.cov)
	s.variance += gain * ((1-gain)*dx*dx - s.variance)
	s.lastOwn = own
}

// age of the newest report in seconds; 0 at the zero time.
func (l *Load) age(now time.Time) float64 {
	if now.IsZero() {
		return 0
	}
	return max(0, now.Sub(l.Reported).Seconds())
}

// told is how many reports the mean of others counts as when the newest is that old.
func (s *seen) told(age float64) float64 { return s.n / (1 + age/toldAge.Seconds()) }

// There is how many requests are at an endpoint at now: the own ones exactly, those of other
// routers as far as reports tell. At the zero time the newest report is fresh.
func (l *Load) There(now time.Time) float64 { return l.there(now, &guess{}) }

// there goes by three things. The newest report tells of others for as long as a request usually
// takes; then they are as many as usual. And own requests in flight are a sample of all: if they stay
// there, so do those of others.
func (l *Load) there(now time.Time, g *guess) float64 {
	own := float64(max(0, l.InFlight))
	x := &l.seen
	if x.n == 0 {
		return own + max(0, min(l.Others, math.MaxInt32))
	}
	age := l.age(now)
	n := x.told(age)
	usual := (n*x.others + othersPrior*g.others) / (n + othersPrior)
	fresh := 0.0
	if past := age / l.usual(); past < longPast {
		fresh = math.Exp(-past)
	}
	return own + max(0, usual+g.beta*(own-x.own)+fresh*(l.Others-usual-g.beta*(x.lastOwn-x.own)))
}

// usual is how long a request takes there, in seconds, above 0.
func (l *Load) usual() float64 {
	if l.fit.n > 0 {
		return l.fit.usual
	}
	return max(firstTook, l.Exec.Seconds())
}

// hangs is the time in seconds for which the endpoint may hang: as long as none of n requests has been
// answered though an answer usually takes that long, times how likely it is that it hangs. The
// logarithms of times vary by noise; that one is so much longer than usual is at most as likely as
// Cantelli's inequality says, whatever their law. Who is asleep is waited for.
func (l *Load) hangs(now time.Time, usual, n, noise float64) float64 {
	if n <= 0 || l.fit.n == 0 || l.Asleep || now.IsZero() {
		return 0
	}
	silent := min(now.Sub(l.silent), time.Hour).Seconds()
	if silent <= usual {
		return 0
	}
	z := math.Log(silent / usual)
	late := math.Pow(1+z*z/noise, -n)
	return silent * hangs / (hangs + (1-hangs)*late)
}

// starts is how long, in seconds, it takes until an endpoint that is asleep has started. A request that
// waits there has begun that; where it takes longer than usual, it may do so for as long again.
func (l *Load) starts(now time.Time) float64 {
	start := cmp.Or(max(0, l.StartUp), startUp)
	if l.waiting > 0 && !now.IsZero() {
		start -= max(0, min(now.Sub(l.silent), time.Hour))
	}
	return math.Abs(start.Seconds())
}
