package route

import "time"

// Load is what a router knows of the requests at an endpoint: what it has sent
// there itself, which it knows exactly, and what the newest load report said. The
// zero value knows nothing; each field whose value is zero, negative, infinite or
// not a number is taken for not known.
//
// Began, Ended and Report keep the counts; everything else is set by whoever has
// measured it.
type Load struct {
	// InFlight is what this router has sent there and not seen end.
	InFlight int
	// Since is the part of InFlight that was sent after the newest report came.
	Since int
	// Queue is what waited there, and Running what was executed, by the newest report.
	Queue, Running int
	// Others estimates what other routers have there: what reports tell beyond the
	// own requests, smoothed.
	Others float64
	// Reported is when the newest report came; zero: there was none.
	Reported time.Time
	// Capacity is what it can answer, in requests per second.
	Capacity float64
	// Exec is how long it executes a request, usually.
	Exec time.Duration
	// Concurrency is how many it executes at once; 0: not known.
	Concurrency int
	// Bandwidth of the path to it, in bytes per second.
	Bandwidth float64
	// Asleep: it must be started before it can answer, which takes StartUp.
	Asleep  bool
	StartUp time.Duration
	// Joined is when it began to take requests; zero: long ago.
	Joined time.Time
	// Failed is when a request to it failed last; zero: none did.
	Failed time.Time
}

// Began counts a request that this router sends there.
func (l *Load) Began() {
	l.InFlight++
	l.Since++
}

// Ended counts a request that this router has seen end, with an answer or without.
// One that Began did not count changes nothing.
func (l *Load) Ended() {
	l.InFlight = max(0, l.InFlight-1)
	// The oldest usually end first, and those were sent before the report.
	l.Since = min(l.Since, l.InFlight)
}

// othersGain is the weight of a new report in Load.Others. The counts of one report
// are a sample of something that changes with each request.
const othersGain = 0.25

// Report notes what a report said that came at now: how many requests waited and
// how many were executed when it was made. It follows Ended of the request whose
// answer carried it. Negative counts count as 0.
func (l *Load) Report(now time.Time, queue, running int) {
	l.Queue, l.Running = max(0, queue), max(0, running)
	// What was sent since the report was made is not in it; how much that is, is not
	// known. Then the others are taken for fewer than they are, never for more.
	others := float64(max(0, l.Queue+l.Running-l.InFlight))
	if l.Reported.IsZero() {
		l.Others = others
	}
	l.Others += othersGain * (others - l.Others)
	l.Reported, l.Since = now, 0
}

// SetLoad replaces what is known of the requests at endpoint i. It costs no more
// than that: shares of connections do not depend on it.
func (v *View) SetLoad(i int, l Load) { v.Endpoints[i].Load = l }
