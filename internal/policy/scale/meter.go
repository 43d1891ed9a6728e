package scale

import (
	"math"
	"time"
)

// What a Meter measures in: intervals of a length that follows the execution time.
const (
	minInterval  = 100 * time.Millisecond
	maxInterval  = 10 * time.Second
	restInterval = time.Second
	// keepRate is the share of the old departure rate in the smoothed one.
	keepRate = 0.5
	// execMemory is how many responses the mean execution time reaches back to, at
	// most. Short enough for a replica that got slower to be noticed within an
	// interval under load, long enough that exponential times do not shake it by
	// more than a tenth.
	execMemory = 50
	// execHalf is the time after which an old mean counts little, whatever few
	// responses there were since.
	execHalf = 30 * time.Second
)

// Report is what the queue of an instance says about it. The zero value says
// nothing.
type Report struct {
	// Queue are the requests that wait for a place, InFlight those that have one.
	Queue, InFlight int
	// Rate are the departures per second, smoothed, in the intervals before.
	Rate float64
	// Confidence is the share of the last interval's responses during which the
	// instance was never short of work, 0 to 1. At 1, Rate is what it can do.
	Confidence float64
	// Exec is the mean time from forwarding a request to the end of its response; 0
	// where none has ended yet.
	Exec time.Duration
	// Work is the mean of what of Exec the instance worked, as far as one can see: without
	// the time for which a body was waited for that was still coming, and for whoever took
	// the answer slowly. 0 where Exec is.
	Work time.Duration
	// CPU and Memory are utilisations, 1 for all there is; 0 for not known. The
	// Meter does not know them.
	CPU, Memory float64
}

// valid: no number of it is one that cannot be measured.
func (r Report) valid() bool {
	for _, v := range [...]float64{r.Rate, r.Confidence, r.CPU, r.Memory} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return false
		}
	}
	return r.Confidence <= 1 && r.Queue >= 0 && r.InFlight >= 0 && r.Exec >= 0 && r.Work >= 0
}

// Token belongs to one request. Its fields are the Meter's.
type Token struct {
	started time.Time
	waited  time.Duration
	drains  uint64
	full    bool
	running bool
}

// Waited says that so much of the time since Started was spent with waiting for those who
// ask: for a body on its way, for an answer that is not taken. It is called before
// Finished.
func (t *Token) Waited(d time.Duration) { t.waited += max(d, 0) }

// Meter measures what leaves one queue (Mu, algorithm 1). Make one with NewMeter;
// whoever has the queue's lock may call it.
type Meter struct {
	now, start time.Time
	interval   time.Duration

	waiting, running int
	// drains counts how often a place became free with nobody to take it. Whoever
	// arrived before the last of these is no witness of full load any more: this is
	// what resets the flags of all that run, at the cost of one addition.
	drains uint64
	// done and witnesses are the responses of this interval, and those of them whose
	// flag was set.
	done, witnesses int

	rate, confidence float64
	exec, work       time.Duration
	execs            int
	execAt           time.Time
}

// NewMeter of a queue that is empty.
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
	// Shorter intervals notice sooner, longer ones hold enough responses to tell.
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

// Failed says that a request that was forwarded ended without a response: what it
// took says nothing about the instance's speed.
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

// Report of now.
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

// advance closes the intervals that have ended. Between two calls nothing happens,
// so that each of them can be closed afterwards.
func (m *Meter) advance(now time.Time) {
	if now.Before(m.now) {
		return
	}
	last := m.now
	m.now = now
	// After so many intervals without an event nothing changes any more.
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
