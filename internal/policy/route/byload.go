package route

import (
	"math"
	"slices"
)

// asleepCosts makes any endpoint that is awake better than one that sleeps.
const asleepCosts = 1e30

// leastConnections takes the endpoint with the fewest requests of this router in flight; equal ones
// take turns. Sleeping ones come last.
type leastConnections struct {
	set  candidates
	turn rotation
}

var _ Policy = (*leastConnections)(nil)

// Pick implements Policy.
func (p *leastConnections) Pick(v View, r Request) (int, bool) {
	index, _ := p.set.look(v, r.Tried)
	if len(index) == 0 {
		return 0, false
	}
	best, least := -1, 0.0
	k := p.turn.start(v, index)
	for range min(len(index), most) {
		l := &v.Endpoints[index[k]].Load
		cost := float64(l.InFlight)
		if l.Asleep {
			cost += asleepCosts
		}
		if best < 0 || cost < least {
			best, least = index[k], cost
		}
		if k++; k == len(index) {
			k = 0
		}
	}
	p.turn.use(v, best)
	return best, true
}

// Weights implements Policy: equal shares, as connections say nothing of requests.
func (p *leastConnections) Weights(v View) []float64 { return (&spread{rule: equal}).Weights(v) }

// twoChoices draws two endpoints and takes the one with fewer requests of this router in flight. If
// both sleep it draws again, a few times.
type twoChoices struct {
	set  candidates
	next uint64
}

var _ Policy = (*twoChoices)(nil)

// below draws a number in [0, n).
func (p *twoChoices) below(n int) int {
	p.next += golden
	return int(mix(p.next) % uint64(n))
}

// Pick implements Policy.
func (p *twoChoices) Pick(v View, r Request) (int, bool) {
	index, _ := p.set.look(v, r.Tried)
	switch len(index) {
	case 0:
		return 0, false
	case 1:
		return index[0], true
	}
	best := -1
	for range most {
		a, b := p.below(len(index)), p.below(len(index)-1)
		if b >= a {
			b++
		}
		i, j := index[a], index[b]
		x, y := &v.Endpoints[i].Load, &v.Endpoints[j].Load
		if x.Asleep && !y.Asleep || x.Asleep == y.Asleep && y.InFlight < x.InFlight {
			i, x = j, y
		}
		if best < 0 || !x.Asleep {
			best = i
		}
		if !x.Asleep {
			break
		}
	}
	return best, true
}

// Weights implements Policy: equal shares.
func (p *twoChoices) Weights(v View) []float64 { return (&spread{rule: equal}).Weights(v) }

// leastResponse takes the endpoint with the least (Q+1)/Cap (Mu, section 3.4.1): Q is the queue in
// its newest report plus what this router has sent since. Among equals it takes the nearest; then
// they take turns. Sleeping ones come last.
type leastResponse struct {
	set  candidates
	turn rotation
}

var _ Policy = (*leastResponse)(nil)

// Pick implements Policy.
func (p *leastResponse) Pick(v View, r Request) (int, bool) {
	index, _ := p.set.look(v, r.Tried)
	if len(index) == 0 {
		return 0, false
	}
	// A replica of unknown capacity counts as the best.
	largest := 0.0
	start := p.turn.start(v, index)
	looked := min(len(index), most)
	for k, n := start, 0; n < looked; n++ {
		if c := v.Endpoints[index[k]].Load.Capacity; positive(c) {
			largest = max(largest, c)
		}
		if k++; k == len(index) {
			k = 0
		}
	}
	if largest == 0 {
		largest = 1
	}
	best, least, near := -1, math.Inf(1), 0.0
	for k, n := start, 0; n < looked; n++ {
		e := &v.Endpoints[index[k]]
		capacity := e.Load.Capacity
		if !positive(capacity) {
			capacity = largest
		}
		cost := float64(e.Load.Queue+e.Load.Since+1) / capacity
		if e.Load.Asleep {
			cost += asleepCosts
		}
		rtt, known := e.distance()
		if !known {
			rtt = math.Inf(1)
		}
		if best < 0 || cost < least || cost == least && rtt < near {
			best, least, near = index[k], cost, rtt
		}
		if k++; k == len(index) {
			k = 0
		}
	}
	p.turn.use(v, best)
	return best, true
}

// Weights implements Policy: shares by capacity.
func (p *leastResponse) Weights(v View) []float64 { return (&spread{rule: capable}).Weights(v) }

// leastShare of a usable endpoint, relative to the largest: one that is never used is never
// measured again.
const leastShare = 1e-9

// capable shares by capacity; an unknown one counts as the largest known.
func capable(c []*Endpoint, w []float64) {
	for i, e := range c {
		if positive(e.Load.Capacity) {
			w[i] = e.Load.Capacity
		}
	}
	largest := slices.Max(append(w, 0))
	for i := range w {
		// Relative to the largest, so that no sum is infinite.
		if w[i] == 0 || largest == 0 {
			w[i] = 1
		} else {
			w[i] = max(w[i]/largest, leastShare)
		}
	}
}
