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

// Make creates the next request of a load.
type Make func(r *rand.Rand) *Request

// Works creates requests whose work follows a law, with bodies and answers of fixed sizes.
func Works(law Law, body, answer int64) Make {
	return func(r *rand.Rand) *Request { return &Request{Work: law(r), Body: body, Answer: answer} }
}

// Open is an open-loop load: requests arrive at random, independent of earlier ones, at the present
// rate per second, at most most. It ends after the duration. Name distinguishes loads of one world.
func Open(w *World, name string, to Sender, next Make, rate func(at time.Duration) float64, most float64,
	last time.Duration, s *Stats) {
	gaps, works := w.Rand("arrivals "+name), w.Rand("work "+name)
	end := w.now + last
	var arrive func()
	// Thinning: candidates arrive at the highest rate and some are dropped, which is exact for any
	// rate over time.
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

// Steady is a constant rate.
func Steady(rps float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rps }
}

// Closed is a closed-loop load: each client sends its next request when the previous one is
// answered. It ends after the duration.
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
				w.After(10*time.Millisecond, again) // a request refused at once must not spin
			})
		}
	}
	for range clients {
		// Spread over time: real clients do not start at the same instant.
		w.After(time.Duration(starts.Int64N(int64(10*time.Millisecond))), again)
	}
}
