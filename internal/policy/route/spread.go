package route

import (
	"math"
	"slices"
	"sort"
)

// rule computes the shares w of candidates, the usable endpoints of one class. w is zero at first
// and may have any sum; if that is not positive and finite, all candidates share equally.
type rule func(candidates []*Endpoint, w []float64)

// spread gives requests in the shares of a rule.
//
// With even, its points are the multiples of the golden ratio: after any number of requests each
// endpoint has had its share to within a few, which independent draws reach only after thousands.
type spread struct {
	rule rule
	only func(*Endpoint) bool // nil: any endpoint may be chosen
	next uint64
	even bool

	// The cumulated shares of a view, as of the first Pick with it.
	of      *Endpoint // the first of its endpoints, which identifies the view
	changes uint64
	index   []int
	sums    []float64
}

var _ Policy = (*spread)(nil)

// golden is 2^64 divided by the golden ratio.
const golden = 0x9e3779b97f4a7c15

// point is the next point in [0, 1).
func (p *spread) point() float64 {
	p.next += golden
	x := p.next
	if !p.even {
		x = mix(x)
	}
	return float64(x>>11) / (1 << 53)
}

// Weights implements Policy.
func (p *spread) Weights(v View) []float64 {
	w := make([]float64, len(v.Endpoints))
	index, shares := p.shares(v, nil)
	for k, i := range index {
		w[i] = shares[k]
	}
	return w
}

// Pick implements Policy. It takes O(log n), and O(n) if the view has changed or endpoints were
// tried.
func (p *spread) Pick(v View, r Request) (int, bool) {
	if len(v.Endpoints) == 0 {
		return 0, false
	}
	if len(r.Tried) > 0 {
		index, shares := p.shares(v, r.Tried)
		return choose(index, sum(shares), p.point())
	}
	if p.of != &v.Endpoints[0] || p.changes != v.changes {
		index, shares := p.shares(v, nil)
		p.of, p.changes, p.index, p.sums = &v.Endpoints[0], v.changes, index, sum(shares)
	}
	return choose(p.index, p.sums, p.point())
}

// shares returns the candidates' indices in v.Endpoints and their shares: usable, untried endpoints
// of the best class. Shares are at least 0 and add up to 1.
func (p *spread) shares(v View, tried []string) (index []int, w []float64) {
	best := unusable
	for i := range v.Endpoints {
		e := &v.Endpoints[i]
		c := v.class(i)
		if c == unusable || c > best || p.only != nil && !p.only(e) || slices.Contains(tried, e.ID) {
			continue
		}
		if c < best {
			best, index = c, index[:0]
		}
		index = append(index, i)
	}
	candidates := make([]*Endpoint, len(index))
	for k, i := range index {
		candidates[k] = &v.Endpoints[i]
	}
	w = make([]float64, len(index))
	p.rule(candidates, w)
	normalise(w)
	return index, w
}

// normalise makes w add up to 1, with equal shares if it has no valid one.
func normalise(w []float64) {
	total := 0.0
	for i, x := range w {
		if !(x > 0) || math.IsInf(x, 0) { // not a number is not above 0 either
			w[i] = 0
		}
		total += w[i]
	}
	for i := range w {
		switch {
		case math.IsInf(total, 0), total == 0:
			w[i] = 1 / float64(len(w))
		default:
			w[i] /= total
		}
	}
}

// sum returns the prefix sums of w.
func sum(w []float64) []float64 {
	sums, total := make([]float64, len(w)), 0.0
	for i, x := range w {
		total += x
		sums[i] = total
	}
	return sums
}

// choose returns the candidate at a point in [0, 1) of the prefix sums. A share of 0 is never
// chosen.
func choose(index []int, sums []float64, point float64) (int, bool) {
	if len(index) == 0 {
		return 0, false
	}
	total := sums[len(sums)-1] // 1 but for rounding
	at := point * total
	k := sort.Search(len(sums), func(k int) bool { return sums[k] > at })
	if k == len(sums) { // by rounding: the last that has a share
		k = sort.Search(len(sums), func(k int) bool { return sums[k] >= total })
	}
	return index[k], true
}
