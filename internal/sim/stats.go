package sim

import (
	"math"
	"slices"
	"time"
)

// Stats of requests. Requests before From, the warm-up, are not counted.
type Stats struct {
	From time.Duration
	// Times of answered requests in seconds; Ends of all requests, By pod.
	Times []float64
	Ends  [3]int
	By    map[string]int
	// Done is when the last of them ended.
	Done   time.Duration
	sorted bool
}

func (s *Stats) send(w *World, to Sender, q *Request, then func(End)) {
	q.Came = w.now
	to.Send(q, func(end End, by string) {
		if q.Came >= s.From {
			s.note(w, q, end, by)
		}
		if then != nil {
			then(end)
		}
	})
}

func (s *Stats) note(w *World, q *Request, end End, by string) {
	s.Ends[end]++
	s.Done = w.now
	if end != Answered {
		return
	}
	s.Times, s.sorted = append(s.Times, (w.now-q.Came).Seconds()), false
	if s.By == nil {
		s.By = map[string]int{}
	}
	s.By[by]++
}

// Mean time in seconds; NaN without answers.
func (s *Stats) Mean() float64 {
	sum := 0.0
	for _, t := range s.Times {
		sum += t
	}
	return sum / float64(len(s.Times))
}

// Percentile of the times in seconds, q in [0, 1]; NaN without answers.
func (s *Stats) Percentile(q float64) float64 {
	n := len(s.Times)
	if n == 0 {
		return math.NaN()
	}
	if !s.sorted {
		slices.Sort(s.Times)
		s.sorted = true
	}
	return s.Times[min(n-1, max(0, int(math.Ceil(q*float64(n)))-1))]
}

// Within is the share of all requests answered within a time.
func (s *Stats) Within(d time.Duration) float64 {
	in, all := 0, s.Ends[Answered]+s.Ends[Refused]+s.Ends[Unserved]
	for _, t := range s.Times {
		if t <= d.Seconds() {
			in++
		}
	}
	return float64(in) / float64(max(all, 1))
}

// Throughput is the counted answers per second until a time.
func (s *Stats) Throughput(until time.Duration) float64 {
	return float64(s.Ends[Answered]) / (until - s.From).Seconds()
}

// Watch records the outcome of each request in all statistics that which returns; nil ones are
// skipped.
func Watch(w *World, to Sender, which func(*Request) []*Stats) Sender { return &watch{w, to, which} }

type watch struct {
	w     *World
	to    Sender
	which func(*Request) []*Stats
}

// Send implements Sender.
func (o *watch) Send(q *Request, done func(End, string)) {
	o.to.Send(q, func(end End, by string) {
		for _, s := range o.which(q) {
			if s != nil {
				s.note(o.w, q, end, by)
			}
		}
		done(end, by)
	})
}
