package route

import "time"

// Load is what a router knows of the requests at an endpoint: what it has sent there itself,
// exactly, and what the newest load report said. The zero value knows nothing; a field that is
// zero, negative, infinite or not a number counts as unknown.
//
// Began, Ended and Report keep the counts; the other fields are set by whoever measures them.
type Load struct {
	// InFlight counts the requests that this router has sent and not seen end.
	InFlight int
	// Since is the part of InFlight sent after the newest report.
	Since int
	// Queue counts waiting and Running executed requests, in the newest report.
	Queue, Running int
	// Others is how many requests of other routers the newest report tells of: those beyond the own
	// ones.
	Others float64
	// Reported is when the newest report arrived; zero: none.
	Reported time.Time
	// Capacity in requests per second.
	Capacity float64
	// Exec is the usual execution time of a request.
	Exec time.Duration
	// Concurrency is how many requests it executes at once; 0: unknown.
	Concurrency int
	// Bandwidth of the path to it, and Back from it, in bytes per second.
	Bandwidth, Back float64
	// Clear is when the large bodies that were sent there will have crossed the path.
	Clear time.Time
	// Trial is the large body in flight while Bandwidth is unknown.
	Trial Trial
	// Asleep: it must start before it can answer, which takes StartUp.
	Asleep  bool
	StartUp time.Duration
	// Joined is when it began to accept requests; zero: long ago.
	Joined time.Time
	// Failed is when a request to it last failed; zero: never.
	Failed time.Time

	// waiting counts the requests of this router whose answers have not begun, silent is since when
	// there have been any and none began.
	waiting int
	silent  time.Time
	fit     fit
	seen    seen
}

// Sent is the load when a request was sent.
type Sent struct{ there float64 }

// Began counts a request that this router sends. Its result is for Answered, and may be dropped.
func (l *Load) Began(now time.Time) Sent {
	s := Sent{float64(max(0, l.InFlight)) + max(0, l.Others)}
	if l.waiting <= 0 {
		l.waiting, l.silent = 0, now
	}
	l.waiting++
	l.InFlight++
	l.Since++
	return s
}

// Heard counts an answer that has begun, whatever it says.
func (l *Load) Heard(now time.Time) { l.waiting, l.silent = max(0, l.waiting-1), now }

// Answered learns from the time that a request took until its answer, less that of the network (see
// Endpoint.Network): how long requests take, and by how much each concurrent one slows them. Do not
// call it for failed requests.
func (l *Load) Answered(now time.Time, s Sent, took time.Duration) {
	// A request that waited says more about the queue than about execution.
	if l.Concurrency <= 0 || s.there < float64(l.Concurrency) {
		l.fit.add(now, s.there, max(0, took).Seconds())
	}
}

// Network is the known network time of a request of a size.
func (e *Endpoint) Network(bytes int64) time.Duration {
	return time.Duration(e.network(bytes, 0) * float64(time.Second))
}

// network is the network time of a request and an answer of these sizes.
func (e *Endpoint) network(bytes, answer int64) (seconds float64) {
	if e.source() != Unknown {
		seconds = e.RTT.Seconds()
	}
	if bytes > 0 && positive(e.Load.Bandwidth) {
		seconds += float64(bytes) / e.Load.Bandwidth
	}
	if answer > 0 && positive(e.Load.Back) {
		seconds += float64(answer) / e.Load.Back
	}
	return seconds
}

// Ended counts a request that has ended; heard says whether Heard was called for it. The counts
// never fall below zero.
func (l *Load) Ended(heard bool) {
	if !heard {
		l.waiting = max(0, l.waiting-1)
	}
	l.InFlight = max(0, l.InFlight-1)
	// The oldest usually end first: those sent before the report.
	l.Since = min(l.Since, l.InFlight)
}

// Report takes a report that arrived at now: how many requests waited and were executed when it was
// made. Call it after Ended of the request whose answer carried it. Negative numbers count as 0.
func (l *Load) Report(now time.Time, queue, running int) {
	l.Queue, l.Running = max(0, queue), max(0, running)
	// Requests sent after the report was made are not in it, and their number is unknown. So Others
	// may be too low, never too high.
	others := float64(max(0, l.Queue+l.Running-l.InFlight))
	l.Others = others
	l.seen.add(float64(max(0, l.InFlight)), others)
	l.Reported, l.Since = now, 0
}

// SetLoad replaces the load of endpoint i. It invalidates nothing: shares of connections do not
// depend on it.
func (v *View) SetLoad(i int, l Load) { v.Endpoints[i].Load = l }
