package scale

import (
	"math"
	"time"
)

// A Meter measures in intervals whose length follows the execution time.
const (
	minInterval  = 100 * time.Millisecond
	maxInterval  = 10 * time.Second
	restInterval = time.Second
	// keepRate is the share of the old departure rate in the smoothed one.
	keepRate = 0.5
	// execMemory is the maximum number of responses in the mean execution time: few enough to
	// notice a slower replica within an interval under load, enough that exponential times do not
	// shake the mean by more than a tenth.
	execMemory = 50
	// execHalf is the time after which an old mean counts little, however few responses there were
	// since.
	execHalf = 30 * time.Second
)

// Report is the load report of an instance's queue. The zero value says nothing.
type Report struct {
	// Queue counts the requests that wait for a place, InFlight those that have one.
	Queue, InFlight int
	// Rate is the smoothed number of departures per second in the intervals before.
	Rate float64
	// Confidence is the share of the last interval's responses during which the instance was never
	// short of work, 0 to 1. At 1, Rate is its capacity.
	Confidence float64
	// Exec is the mean time from forwarding a request to the end of its response; 0 if none has
	// ended yet.
	Exec time.Duration
	// Work is the part of Exec that the instance worked, as far as visible: without the time spent
	// waiting for a body still arriving, or for a client that took the answer slowly. 0 if Exec is.
	Work time.Duration
	// CPU and Memory are utilisations, 1 for all there is, 0 for unknown. The Meter does not set
	// them.
	CPU, Memory float64
}

// valid says whether all numbers can have been measured.
func (r Report) valid() bool {
	for _, v := range [...]float64{r.Rate, r.Confidence, r.CPU, r.Memory} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return false
		}
	}
	return r.Confidence <= 1 && r.Queue >= 0 && r.InFlight >= 0 && r.Exec >= 0 && r.Work >= 0
}

// Token is the state of one request, for the Meter only.
type Token struct {
	started time.Time
	waited  time.Duration
	drains  uint64
	full    bool
	running bool
}

// Waited says that d of the time since Started was spent waiting for the client: for a body on its
// way, or for an answer to be taken. Call it before Finished.
func (t *Token) Waited(d time.Duration) { t.waited += max(d, 0) }

// Meter measures the departures of one queue (Mu, algorithm 1). Make one with NewMeter; the queue's
// lock guards it.
type Meter struct {
	now, start time.Time
	interval   time.Duration

	waiting, running int
	// drains counts how often a place became free with no request waiting. A request that arrived
	// before the last of these no longer witnesses full load: one addition resets the flags of all
	// running requests.
	drains uint64
	// done counts the responses of this interval, witnesses those whose flag was set.
	done, witnesses int

	rate, confidence float64
	exec, work       time.Duration
	execs            int
	execAt           time.Time
}

// NewMeter returns the meter of an empty queue.
func NewMeter(now time.Time) Meter {
	return Meter{now: now, start: now, interval: restInterval}
}

// Arrived says that a request has come to the queue, to wait or to start at once.
func (m *Meter) Arrived(now time.Time) Token {
	m.advance(now)
	t := Token{drains: m.drains, full: m.waiting > 0}
	m.waiting++
	return t
}

// Started says that the request was forwarded.
func (m *Meter) Started(t *Token, now time.Time) {
	if t.running {
		return
	}
	m.advance(now)
	m.waiting = max(0, m.waiting-1)
	m.running++
	t.running, t.started, t.waited = true, m.now, 0
}

// Finished says that the response has ended, however it did.
func (m *Meter) Finished(t *Token, now time.Time) {
	if !t.running {
		return
	}
	m.advance(now)
	t.running = false
	m.running = max(0, m.running-1)
	m.done++
	if t.full && t.drains == m.drains {
		m.witnesses++
	}
	if m.waiting == 0 {
		m.drains++
	}
	m.learnExec(m.now.Sub(t.started), t.waited)
	// Shorter intervals react sooner, longer ones have enough responses for a rate.
	if want := 10 * m.exec; want > 2*m.interval || want < m.interval/2 {
		m.interval = min(max(want, minInterval), maxInterval)
	}
}

// Left says that the request went away without being forwarded: it gave up, or was
// refused after it had arrived.
func (m *Meter) Left(t *Token, now time.Time) {
	if t.running {
		m.Failed(t, now)
		return
	}
	m.advance(now)
	m.waiting = max(0, m.waiting-1)
}

// Failed says that a forwarded request ended without a response: its duration says nothing about
// the instance's speed.
func (m *Meter) Failed(t *Token, now time.Time) {
	if !t.running {
		return
	}
	m.advance(now)
	t.running = false
	m.running = max(0, m.running-1)
	if m.waiting == 0 {
		m.drains++
	}
}

// Report returns the report at now.
func (m *Meter) Report(now time.Time) Report {
	m.advance(now)
	return Report{Queue: m.waiting, InFlight: m.running, Rate: m.rate, Confidence: m.confidence, Exec: m.exec,
		Work: m.work}
}

func (m *Meter) learnExec(took, waited time.Duration) {
	took = max(took, 0)
	m.execs = min(m.execs+1, execMemory)
	weight := 1 / float64(m.execs)
	if m.execs > 1 {
		weight = max(weight, min(0.5, m.now.Sub(m.execAt).Seconds()/execHalf.Seconds()))
	}
	m.exec += time.Duration(weight * float64(took-m.exec))
	m.work += time.Duration(weight * float64(max(took-waited, 0)-m.work))
	m.execAt = m.now
}

// advance closes the intervals that have ended. Nothing happens between two calls, so they can be
// closed afterwards.
func (m *Meter) advance(now time.Time) {
	if now.Before(m.now) {
		return
	}
	last := m.now
	m.now = now
	// After so many intervals without an event nothing changes.
	for range 64 {
		end := m.start.Add(m.interval)
		if end.Before(last) {
			end = last // the interval became shorter while it ran
		}
		if now.Before(end) {
			return
		}
		m.close(end)
	}
	m.start = now
}

func (m *Meter) close(end time.Time) {
	took := end.Sub(m.start).Seconds()
	m.start = end
	if m.done == 0 && m.running == 0 && m.waiting == 0 {
		m.rate, m.confidence = 0, 0
		if m.interval > restInterval {
			m.interval = max(m.interval/2, restInterval)
		}
		return
	}
	rate := float64(m.done) / max(took, 1e-3)
	if m.rate == 0 {
		m.rate = rate
	} else {
		m.rate = keepRate*m.rate + (1-keepRate)*rate
	}
	m.confidence = 0
	if m.done > 0 {
		m.confidence = float64(m.witnesses) / float64(m.done)
	}
	m.done, m.witnesses = 0, 0
}
