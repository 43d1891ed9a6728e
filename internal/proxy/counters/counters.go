package counters

import (
	"sync/atomic"
	"time"
)

// Bounds are the upper ends of the buckets of a Histogram, in seconds: those that
// OpenTelemetry advises for the durations of requests.
var Bounds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

// buckets are those of Bounds and one for all above.
const buckets = 15

// Histogram is a distribution of spans of time over the buckets of Bounds.
type Histogram struct {
	// Counts of each bucket alone, and of what is above the last bound.
	Counts []uint64
	Sum    time.Duration
}

// Durations counts without a lock: one for each of many connections.
type Durations struct {
	counts [buckets]atomic.Uint64
	sum    atomic.Int64 // ns
}

// Observe counts one duration.
func (h *Durations) Observe(d time.Duration) {
	s, i := d.Seconds(), 0
	for i < len(Bounds) && s > Bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// Read returns what was counted.
func (h *Durations) Read() Histogram {
	out := Histogram{Counts: make([]uint64, buckets), Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		out.Counts[i] = h.counts[i].Load()
	}
	return out
}

// Bytes counts bytes of clients.
type Bytes struct {
	Received atomic.Uint64 // from clients
	Sent     atomic.Uint64 // to clients
}

// Traffic is what clients sent and were sent, in bytes.
type Traffic struct{ Received, Sent uint64 }

// Read returns what was counted.
func (t *Bytes) Read() Traffic {
	return Traffic{Received: t.Received.Load(), Sent: t.Sent.Load()}
}
