package plugin

import (
	"errors"
	"time"
)

// Bounds of a Breaker.
const (
	// maxFailures in a row, then a plugin rests.
	maxFailures = 3
	// It rests for firstRest, and twice as long after each question that fails then,
	// lastRest at most.
	firstRest, lastRest = 5 * time.Second, 5 * time.Minute
)

// Breaker says whether a plugin is asked: one that has failed a few times in a row rests
// for a while, then a single question tries it out. It is a value; its zero is that of a
// plugin which has not failed.
type Breaker struct {
	// Failed counts the questions in a row that failed, Why is what was wrong with the
	// last.
	Failed int
	Why    string
	// Until when it rests, of a plugin that has failed so often.
	Until time.Time
	rest  time.Duration
	// trying: the question that tries it out is open.
	trying bool
}

// Open says whether nobody but one question may ask.
func (b Breaker) Open() bool { return b.Failed >= maxFailures }

// May says whether a question may be asked now.
func (b Breaker) May(now time.Time) bool { return !b.Open() || !b.trying && !now.Before(b.Until) }

// Asked is the breaker once a question has gone out, which May must have allowed, and
// whether that one tries the plugin out.
func (b Breaker) Asked() (next Breaker, trial bool) {
	b.trying = b.Open()
	return b, b.trying
}

// Ended is the breaker once a question has ended, well where err is nil; trial is as
// Asked said. What came of a question that the plugin never saw says nothing about it.
func (b Breaker) Ended(trial bool, err error, now time.Time) Breaker {
	if trial {
		b.trying = false
	}
	var e *Error
	switch {
	case err == nil:
		return Breaker{}
	case errors.As(err, &e) && e.Unasked:
		return b
	case b.Open() && !trial: // it was asked before it rested
		return b
	}
	b.Failed++
	b.Why = err.Error()
	switch {
	case trial && b.rest > 0: // else another one was answered meanwhile
		b.rest = min(2*b.rest, lastRest)
	case b.Open():
		b.rest = firstRest
	}
	if b.Open() {
		b.Until = now.Add(b.rest)
	}
	return b
}
