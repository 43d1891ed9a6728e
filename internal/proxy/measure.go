package proxy

import (
	"maps"
	"net"
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

// histogram counts without a lock: one for each of many connections.
type histogram struct {
	counts [buckets]atomic.Uint64
	sum    atomic.Int64 // ns
}

func (h *histogram) observe(d time.Duration) {
	s, i := d.Seconds(), 0
	for i < len(Bounds) && s > Bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

func (h *histogram) read() Histogram {
	out := Histogram{Counts: make([]uint64, buckets), Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		out.Counts[i] = h.counts[i].Load()
	}
	return out
}

// traffic counts bytes of clients.
type traffic struct {
	received atomic.Uint64 // from clients
	sent     atomic.Uint64 // to clients
}

// Traffic is what clients sent and were sent, in bytes.
type Traffic struct{ Received, Sent uint64 }

func (t *traffic) read() Traffic {
	return Traffic{Received: t.received.Load(), Sent: t.sent.Load()}
}

// countedConn is a client's connection whose bytes are counted, and which breaks when
// the client takes nothing for too long.
type countedConn struct {
	net.Conn
	traffic *traffic
	// patience with a client that takes nothing; 0: for ever.
	patience time.Duration
	// timed: who uses it has set a time for writing, which counts.
	timed atomic.Bool
}

// Read implements net.Conn.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.traffic.received.Add(uint64(max(n, 0)))
	return n, err
}

// Write implements net.Conn.
func (c *countedConn) Write(p []byte) (int, error) {
	if c.patience > 0 && !c.timed.Load() {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(c.patience)) // one that is closed says so when it is written to
	}
	n, err := c.Conn.Write(p)
	c.traffic.sent.Add(uint64(max(n, 0)))
	return n, err
}

// SetWriteDeadline implements net.Conn.
func (c *countedConn) SetWriteDeadline(t time.Time) error {
	c.timed.Store(!t.IsZero())
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *countedConn) SetDeadline(t time.Time) error {
	c.timed.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}

// CloseWrite passes a half-close on, which upgraded connections use.
func (c *countedConn) CloseWrite() error {
	closeWrite(c.Conn)
	return nil
}

// answers are the durations of a service's requests by how they were answered.
type answers struct {
	by atomic.Pointer[map[answer]*histogram] // replaced as a whole
}

// answer is one way to answer: the method of the request ("_OTHER" for one that
// is not a standard's) and the status. The zero value is all others together.
type answer struct {
	method string
	status int
}

// maxAnswers of a service that are told apart: what a program answers may be
// anything.
const maxAnswers = 32

// statusClosed is what is counted where the client left before an answer, under
// the number that other proxies write into their logs.
const statusClosed = 499

func (a *answers) observe(method string, status int, d time.Duration) {
	key := answer{knownMethod(method), status}
	for {
		now := a.by.Load()
		if now != nil {
			if h := (*now)[key]; h != nil {
				h.observe(d)
				return
			}
			if len(*now) >= maxAnswers && key != (answer{}) {
				key = answer{}
				continue
			}
		}
		next := map[answer]*histogram{key: {}}
		if now != nil {
			maps.Copy(next, *now)
		}
		a.by.CompareAndSwap(now, &next) // who was faster is found in the next round
	}
}

// knownMethod bounds what a client can make of a label.
func knownMethod(method string) string {
	switch method {
	case "GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE":
		return method
	}
	return "_OTHER"
}
