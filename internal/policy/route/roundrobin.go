package route

import "slices"

// RoundRobin uses the endpoints of the best class in turn. It remembers its place on the ring, not
// its index in a list: when endpoints come and go it continues from there, so neither the first of
// the list nor a newcomer gets a burst. The zero value is ready for use.
type RoundRobin struct {
	at uint64
	id string
}

var _ Policy = (*RoundRobin)(nil)

// Pick implements Policy. It takes O(log n) if the next endpoint is healthy.
func (p *RoundRobin) Pick(v View, r Request) (int, bool) {
	n := len(v.Endpoints)
	start := v.after(p.at, p.id)
	found, best := -1, unusable
	for k := range n {
		i := start + k
		if i >= n {
			i -= n
		}
		c := v.class(i)
		if c >= best || slices.Contains(r.Tried, v.Endpoints[i].ID) {
			continue
		}
		found, best = i, c
		if c == healthy {
			break
		}
	}
	if found < 0 {
		return 0, false
	}
	p.at, p.id = v.places[found], v.Endpoints[found].ID
	return found, true
}

// Weights implements Policy: equal shares for the endpoints of the best class.
func (p *RoundRobin) Weights(v View) []float64 {
	best := unusable
	for i := range v.Endpoints {
		best = min(best, v.class(i))
	}
	w := make([]float64, len(v.Endpoints))
	if best == unusable {
		return w
	}
	n := 0
	for i := range v.Endpoints {
		if v.class(i) == best {
			n++
		}
	}
	for i := range v.Endpoints {
		if v.class(i) == best {
			w[i] = 1 / float64(n)
		}
	}
	return w
}
