package rival

import (
	"math"
	"slices"
	"time"
)

// probe is the answer to a probe.
type probe struct {
	peer    *prequalPeer
	rif     int // requests in flight then, and those sent since because of it
	latency time.Duration
	at      time.Duration // when it arrived
	uses    int           // left
}

// pool has the probes that requests choose from, the oldest first, at most one for each pod.
type pool struct {
	probes []probe
	rifs   []int // requests in flight, of the latest answers
	// byAge says that the next removal takes the oldest, else the worst.
	byAge bool
}

// add puts an answer into the pool, in place of an older one of the same pod, or of the oldest if the pool
// is full.
func (o *pool) add(p probe) {
	o.rifs = last(seen, append(o.rifs, p.rif))
	o.keep(func(q probe) bool { return q.peer != p.peer })
	o.probes = last(poolSize, append(o.probes, p))
}

// last keeps at most n of a list, the last ones.
func last[T any](n int, list []T) []T { return slices.Delete(list, 0, max(0, len(list)-n)) }

// keep removes all others.
func (o *pool) keep(ok func(probe) bool) {
	o.probes = slices.DeleteFunc(o.probes, func(p probe) bool { return !ok(p) })
}

// threshold is the number of requests in flight above which a pod is hot.
func (o *pool) threshold() int {
	if len(o.rifs) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(o.rifs))
	return sorted[int(math.Ceil(quantile*float64(len(sorted))))-1]
}

// better is the hot-cold lexicographic rule: a cold pod is better than a hot one, of cold pods the one
// with the lower latency, of hot pods the one with fewer requests in flight.
func better(a, b probe, threshold int) bool {
	hotA, hotB := a.rif > threshold, b.rif > threshold
	switch {
	case hotA != hotB:
		return hotB
	case hotA:
		return a.rif < b.rif
	}
	return a.latency < b.latency
}

// best returns the index of the best probe of another pod than the one tried, -1 if there are too few.
func (o *pool) best(tried *prequalPeer) int {
	best, n, limit := -1, 0, o.threshold()
	for i, p := range o.probes {
		if p.peer == tried {
			continue
		}
		if n++; best < 0 || better(p, o.probes[best], limit) {
			best = i
		}
	}
	if n < poolLeast {
		return -1
	}
	return best
}

// use counts a request that goes to the pod of a probe, and returns the pod.
func (o *pool) use(i int) *prequalPeer {
	p := &o.probes[i]
	peer := p.peer
	p.rif++
	if p.uses--; p.uses <= 0 {
		o.probes = slices.Delete(o.probes, i, i+1)
	}
	return peer
}

// remove removes a probe, alternately the worst and the oldest: a probe that is never the best would stay
// until it expires.
func (o *pool) remove() {
	if len(o.probes) == 0 {
		return
	}
	i := 0
	if !o.byAge {
		limit := o.threshold()
		for j := range o.probes {
			if better(o.probes[i], o.probes[j], limit) {
				i = j
			}
		}
	}
	o.byAge = !o.byAge
	o.probes = slices.Delete(o.probes, i, i+1)
}
