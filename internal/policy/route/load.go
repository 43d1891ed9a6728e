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
	// Bandwidth of the path to it, and Back of that from it, in bytes per second.
	Bandwidth, Back float64
	// Trial is the large body that is on its way there while Bandwidth is not known.
	Trial Trial
	// Asleep: it must be started before it can answer, which takes StartUp.
	Asleep  bool
	StartUp time.Duration
	// Joined is when it began to take requests; zero: long ago.
	Joined time.Time
	// Failed is when a request to it failed last; zero: none did.
	Failed time.Time

	fit fit
}

// Sent belongs to one request: what was there when it was sent.
type Sent struct{ there float64 }

// Began counts a request that this router sends there. What it returns is for
// Answered; it may be dropped.
func (l *Load) Began() Sent {
	s := Sent{float64(max(0, l.InFlight)) + max(0, l.Others)}
	l.InFlight++
	l.Since++
	return s
}

// Answered notes how long a request took until its answer, without what the network
// needs for it (see Endpoint.Network): it teaches how long requests take there, and
// how much longer by each other one. A request that failed was not answered.
func (l *Load) Answered(s Sent, took time.Duration) {
	// What had to wait tells of the queue, not of what executes.
	if l.Concurrency <= 0 || s.there < float64(l.Concurrency) {
		l.fit.add(s.there, max(0, took).Seconds())
	}
}

// Network is how long the network takes for a request with so many bytes, as far as that
// is known.
func (e *Endpoint) Network(bytes int64) time.Duration {
	return time.Duration(e.network(bytes, 0) * float64(time.Second))
}

// network is what it takes for a request with so many bytes, and an answer with so many.
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

// fit is a line through (requests there, seconds), older pairs counting less. The
// slope comes from many pairs, as it hides in the differences between them; where
// the line is comes from the newest, as a replica can get slower or faster.
type fit struct {
	n, x, y, xx, xy float64
	// nowX and nowY are means of the newest pairs.
	nowX, nowY float64
}

const (
	fitMemory = 1000 // pairs for the slope
	nowMemory = 100  // pairs for the place of the line
	// Before anything is known a request is taken to make others slower by this part
	// of its own time: between 0 (places of their own) and 1 (one processor for all).
	// It has the weight of so many pairs a request apart.
	priorSlope, priorWeight = 0.25, 20
)

func (f *fit) add(x, y float64) {
	gain := max(1/(f.n+1), 1.0/fitMemory)
	now := max(gain, 1.0/nowMemory)
	f.n = min(f.n+1, fitMemory)
	dx, dy := x-f.x, y-f.y
	f.x += gain * dx
	f.y += gain * dy
	f.xx += gain * ((1-gain)*dx*dx - f.xx)
	f.xy += gain * ((1-gain)*dx*dy - f.xy)
	f.nowX += now * (x - f.nowX)
	f.nowY += now * (y - f.nowY)
}

// line is the time with so many others there, and by how much each of them makes it
// longer. Guess is the time of one alone, for as long as nothing was seen.
func (f *fit) line(others, guess float64) (seconds, slope float64) {
	if f.n < 3 {
		return guess * (1 + priorSlope*others), priorSlope * guess
	}
	slope = (f.n*f.xy + priorWeight*priorSlope*f.y) / (f.n*f.xx + priorWeight)
	// Steeper than in proportion to the requests there it cannot be.
	slope = max(0, min(slope, f.nowY/(f.nowX+1)))
	return max(f.nowY+slope*(others-f.nowX), slope*(others+1)), slope
}
