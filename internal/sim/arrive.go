package sim

import (
	"math/rand/v2"
	"time"
)

// Sender takes requests; a Router is one.
type Sender interface {
	Send(q *Request, done func(end End, by string))
}

var _ Sender = (*Router)(nil)

// Make makes the next request of a load.
type Make func(r *rand.Rand) *Request

// Works makes requests of a law, with bodies and answers of so many bytes.
func Works(law Law, body, answer int64) Make {
	return func(r *rand.Rand) *Request { return &Request{Work: law(r), Body: body, Answer: answer} }
}

// Open is an open-loop load: requests come whatever became of those before, at
// random, as many per second as rate says at each moment, but never more than most.
// It ends after the duration. Name tells loads of one world apart.
func Open(w *World, name string, to Sender, next Make, rate func(at time.Duration) float64, most float64,
	last time.Duration, s *Stats) {
	gaps, works := w.Rand("arrivals "+name), w.Rand("work "+name)
	end := w.now + last
	var arrive func()
	// Candidates come at the highest rate, and some of them are left out: exact for
	// rates that change in any way.
	arrive = func() {
		if w.now >= end {
			return
		}
		if gaps.Float64()*most < rate(w.now) {
			s.send(w, to, next(works), nil)
		}
		w.After(time.Duration(gaps.ExpFloat64()/most*float64(time.Second)), arrive)
	}
	if most > 0 {
		w.After(time.Duration(gaps.ExpFloat64()/most*float64(time.Second)), arrive)
	}
}

// Steady is a rate that stays.
func Steady(rps float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rps }
}

// Closed is a closed-loop load: so many clients, each of which sends its next
// request when the one before was answered. It ends after the duration.
func Closed(w *World, name string, to Sender, next Make, clients int, last time.Duration, s *Stats) {
	works, starts := w.Rand("work "+name), w.Rand("start "+name)
	end := w.now + last
	var again func()
	again = func() {
		if w.now < end {
			s.send(w, to, next(works), func(e End) {
				if e == Answered {
					again()
					return
				}
				w.After(10*time.Millisecond, again) // what is refused at once must not spin
			})
		}
	}
	for range clients {
		// Not all at the same instant: real clients never are.
		w.After(time.Duration(starts.Int64N(int64(10*time.Millisecond))), again)
	}
}
