package route

import (
	"math"
	"time"
)

// fastest sends a request where it costs least: its own expected time, and the time
// that it costs those who come after it. DESIGN.md says why it is this sum, what else
// was tried, and how it does against the policies of the papers.
type fastest struct {
	set  candidates
	turn rotation
	// near are the nearest of the class, for when there are too many to look at all.
	near []int
	// full is how many requests there are for each place, with the new one, usually.
	full float64
	// picks since one was sent to see how things are there.
	picks int
}

var _ Policy = (*fastest)(nil)

// The form of the cost; see DESIGN.md for the tables that these come from.
const (
	// waiting is the weight of a second in the queue: one for the request itself, and
	// half a one for those behind it.
	waiting = 1.5
	// crowding is the part of the execution time that a replica costs whose places are
	// all taken but for this one, falling with the square of their share.
	crowding = 0.7
	// slowing is the weight of what a request takes from the others there.
	slowing = 2
	// backlog is what is added to waiting where there are as many requests as places:
	// then work never ends, and an idle place, be it slow, is lost for ever. It begins at
	// nearlyFull; what counts is the mean over so many choices, not a moment.
	backlog, nearlyFull, fullMemory = 6, 0.95, 64
)

const (
	// staleAfter is when a report says nothing of others' requests any more: five
	// epochs of the scaler.
	staleAfter = 10 * time.Second
	// blame is for how long a failed request speaks against an endpoint.
	blame = 10 * time.Second
	// startUp is what a start takes as long as nobody knows.
	startUp = time.Second
	// One in lookAgain requests goes to the endpoint that was not heard of for longest,
	// if that is lookAfter: one that was slow once is not left out for ever.
	lookAgain, lookAfter = 1000, time.Minute
	// sampled is how many are looked at; of more, those that follow the one chosen last,
	// and the nearest of all.
	sampled = 24
	// nearest is how many of those.
	nearest = 4
)

// Pick implements Policy. It takes O(1) of many endpoints, and O(n) where the view
// has changed or something was tried already.
func (p *fastest) Pick(v View, r Request) (int, bool) {
	index, changed := p.set.look(v, r.Tried)
	if len(index) == 0 {
		return 0, false
	}
	if changed {
		p.near = nearestOf(v, p.set.class, p.near[:0])
	}
	start := p.turn.start(v, index)
	looked := min(len(index), sampled)
	g := p.guess(v, &r, index, start, looked)
	best, least := -1, math.Inf(1)
	oldest, since := -1, r.Now.Add(-lookAfter)
	for k, n := start, 0; n < looked; n++ {
		e := &v.Endpoints[index[k]]
		if c := e.cost(&r, g); best < 0 || c < least {
			best, least = index[k], c
		}
		if e.Load.Reported.Before(since) && !e.Load.Asleep && e.Load.InFlight == 0 {
			oldest, since = index[k], e.Load.Reported
		}
		if k++; k == len(index) {
			k = 0
		}
	}
	if len(index) > sampled && len(r.Tried) == 0 {
		for _, i := range p.near {
			if c := v.Endpoints[i].cost(&r, g); c < least {
				best, least = i, c
			}
		}
	}
	if p.picks++; p.picks >= lookAgain && len(r.Tried) == 0 {
		p.picks = 0
		if oldest >= 0 && !r.Now.IsZero() {
			best = oldest
		}
	}
	p.turn.use(v, best)
	return best, true
}

// guess is what is taken for what is not known.
type guess struct {
	// took is the execution time of the fastest that is known, in seconds: a request or
	// two will tell.
	took float64
	// away is the mean distance of those that are known, in seconds.
	away float64
	// waiting is the weight of a second in a queue now.
	waiting float64
}

func (p *fastest) guess(v View, r *Request, index []int, start, looked int) guess {
	g := guess{took: math.Inf(1)}
	known, there, places := 0, 0.0, 0.0
	for k, n := start, 0; n < looked; n++ {
		e := &v.Endpoints[index[k]]
		if l := &e.Load; l.Concurrency > 0 && !l.Asleep {
			there += l.There(r.Now)
			places += float64(l.Concurrency)
		}
		if e.Load.Exec > 0 {
			g.took = min(g.took, e.Load.Exec.Seconds())
		}
		if e.source() != Unknown {
			g.away += e.RTT.Seconds()
			known++
		}
		if k++; k == len(index) {
			k = 0
		}
	}
	if math.IsInf(g.took, 1) {
		g.took = 0.001 // all are the same: any number does
	}
	g.away /= float64(max(known, 1))
	g.waiting = waiting
	if places > 0 {
		p.full += ((there+1)/places - p.full) / fullMemory
		g.waiting += backlog * max(0, min(1, (p.full-nearlyFull)/(1-nearlyFull)))
	}
	return g
}

// There is how many requests are at an endpoint at now: the own ones for certain, those
// of other routers as far as the newest report can be believed; at the zero time it is
// as if it had just come.
func (l *Load) There(now time.Time) float64 {
	there := float64(max(0, l.InFlight))
	if l.Others > 0 && l.Others < math.MaxInt32 {
		fresh := 1.0
		if !now.IsZero() {
			fresh = 1 - now.Sub(l.Reported).Seconds()/staleAfter.Seconds()
		}
		there += l.Others * max(0, min(1, fresh))
	}
	return there
}

// cost of a request in seconds, always finite.
func (e *Endpoint) cost(r *Request, g guess) float64 {
	l := &e.Load
	there := l.There(r.Now)
	alone := g.took
	if l.Exec > 0 {
		alone = l.Exec.Seconds()
	}
	// As many places count as there are, but one that has answered little yet is sent
	// little more: a newcomer must show first how fast it is.
	places := math.Inf(1)
	if l.Concurrency > 0 {
		places = float64(l.Concurrency)
	}
	if seen := 1 + l.fit.n/2; seen < places {
		places = seen
	}
	others := min(there, places-1)
	took, slope := l.fit.line(others, alone)
	wait := max(0, there+1-places) * took / places
	used := min(there/places, 1e3)
	network := e.network(r.Bytes, r.Answer)
	if !positive(l.Bandwidth) {
		network += l.Trial.network(r.Bytes, r.Now)
	}
	if e.source() == Unknown {
		switch {
		case e.Local:
			network += OwnRTT.Seconds()
		case l.fit.n < 3: // else it is within what was seen
			network += g.away
		}
	}
	cost := network + took + slowing*slope*others + g.waiting*wait + crowding*took*used*used
	if l.Asleep {
		start := startUp
		if l.StartUp > 0 {
			start = l.StartUp
		}
		cost += start.Seconds()
	}
	if !l.Failed.IsZero() {
		if ago := r.Now.Sub(l.Failed); ago < blame {
			cost *= 2 - min(1, max(0, ago.Seconds()/blame.Seconds()))
		}
	}
	return cost
}

// nearestOf appends the endpoints with the shortest round trips to out.
func nearestOf(v View, class, out []int) []int {
	far := func(i int) float64 {
		if d, known := v.Endpoints[i].distance(); known {
			return d
		}
		return math.Inf(1)
	}
	for _, i := range class {
		at := len(out)
		for at > 0 && far(i) < far(out[at-1]) {
			at--
		}
		if at == nearest {
			continue
		}
		if len(out) < nearest {
			out = append(out, 0)
		}
		copy(out[at+1:], out[at:])
		out[at] = i
	}
	return out
}

// Weights implements Policy, for connections, of which no load is seen in time: each
// by what it can do, less the longer a request takes there.
func (p *fastest) Weights(v View) []float64 { return (&spread{rule: swift}).Weights(v) }

// swift shares by capacity and by the inverse of the square of the time that a
// request takes there alone.
func swift(c []*Endpoint, w []float64) {
	capable(c, w)
	g := guess{took: math.Inf(1)}
	for _, e := range c {
		if x := e.Load.Exec; x > 0 {
			g.took = min(g.took, x.Seconds())
		}
		g.away = max(g.away, e.network(0, 0))
	}
	if math.IsInf(g.took, 1) {
		g.took = 0.001
	}
	least := math.Inf(1)
	times := make([]float64, len(c))
	for i, e := range c {
		quiet := *e
		quiet.Load = Load{Exec: e.Load.Exec, Asleep: e.Load.Asleep, StartUp: e.Load.StartUp}
		times[i] = quiet.cost(&Request{}, g)
		least = min(least, times[i])
	}
	for i := range w {
		w[i] = max(w[i]*(least/times[i])*(least/times[i]), leastShare)
	}
}
