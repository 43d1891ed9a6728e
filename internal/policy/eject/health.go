package eject

import (
	"math/rand/v2"
	"time"
)

// Times of the ejection of an endpoint.
const (
	// FirstProbe is the longest time until the first probe after a failure; it
	// doubles with each further one.
	FirstProbe = 200 * time.Millisecond
	// MaxProbe is the longest time between two probes.
	MaxProbe = 10 * time.Second
	// Forget is how long after its last failure a readmitted endpoint has a clean record again.
	// Until then a new failure continues the longer back-off: an endpoint that accepts connections
	// and then resets them passes every probe.
	Forget = 30 * time.Second
)

// Health is the record of one endpoint's failures. It is a value: methods return
// the next one. The zero value is a healthy endpoint.
type Health struct {
	failures int
	last     time.Time // of the last failure that counted
	due      time.Time // of the next probe; zero: not ejected
}

// Ejected says whether the endpoint is out of the rotation.
func (h Health) Ejected() bool { return !h.due.IsZero() }

// Failures is how many counted since the record was clean.
func (h Health) Failures() int { return h.failures }

// ProbeDue returns when the next probe is due; false if the endpoint is not ejected.
func (h Health) ProbeDue() (time.Time, bool) { return h.due, h.Ejected() }

// Failed is the record after a connection or probe failed at now: ejected. Failures before the next
// probe is due change nothing: a thousand connections that break at once are one outage, not a
// thousand. The seed spreads the probes of many routers and endpoints.
func (h Health) Failed(now time.Time, seed uint64) Health {
	if h.Ejected() && now.Before(h.due) {
		return h
	}
	if !h.Ejected() && now.Sub(h.last) > Forget {
		h.failures = 0
	}
	h.failures++
	delay := MaxProbe
	// 200 ms doubled six times is beyond 10 s; a larger shift would overflow.
	if h.failures <= 6 {
		delay = min(FirstProbe<<(h.failures-1), MaxProbe)
	}
	spread := rand.New(rand.NewPCG(seed, uint64(h.failures)))
	delay = delay/2 + time.Duration(spread.Int64N(int64(delay/2)+1))
	h.last, h.due = now, now.Add(delay)
	return h
}

// ProbeNow is the record after a hint that the endpoint may work again: if it is
// ejected, its next probe is due at now.
func (h Health) ProbeNow(now time.Time) Health {
	if h.Ejected() && now.Before(h.due) {
		h.due = now
	}
	return h
}

// Succeeded is the record after a connection or probe succeeded: not ejected.
func (h Health) Succeeded() Health {
	h.due = time.Time{}
	return h
}
