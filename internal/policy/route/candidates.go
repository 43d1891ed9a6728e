package route

import (
	"math"
	"slices"
)

// candidates are the endpoints that a choice by load is made from: the usable ones
// of the best class. What does not change with every request is kept from one choice
// to the next.
type candidates struct {
	of      *Endpoint
	n       int
	changes uint64
	class   []int
	left    []int // of those that were not tried
}

// look returns the indices of the candidates in v, ascending, valid until the next
// call, and whether the view is another than before. It allocates nothing as long as
// the view has not grown, and takes O(n) only where the view has changed or something
// was tried.
func (c *candidates) look(v View, tried []string) (index []int, changed bool) {
	if len(v.Endpoints) == 0 {
		return nil, false
	}
	if changed = c.of != &v.Endpoints[0] || c.n != len(v.Endpoints) || c.changes != v.changes; changed {
		c.of, c.n, c.changes = &v.Endpoints[0], len(v.Endpoints), v.changes
		c.class = bestClass(v, nil, c.class[:0])
	}
	if len(tried) > 0 {
		c.left = bestClass(v, tried, c.left[:0])
		return c.left, changed
	}
	return c.class, changed
}

// Usable appends the indices of the endpoints that a request may be sent to to index:
// the usable ones of the best class, ascending; those of a revision that is only tried where
// there are no others. What was in index is dropped.
func (v View) Usable(index []int) []int {
	if out := bestClass(v.of(oldOnes), nil, index[:0]); len(out) > 0 {
		return out
	}
	return bestClass(v, nil, index[:0])
}

// bestClass appends the usable endpoints of the best class that were not tried.
func bestClass(v View, tried []string, index []int) []int {
	best := unusable
	for i := range v.Endpoints {
		k := v.class(i)
		if k == unusable || k > best || len(tried) > 0 && slices.Contains(tried, v.Endpoints[i].ID) {
			continue
		}
		if k < best {
			best, index = k, index[:0]
		}
		index = append(index, i)
	}
	return index
}

// most is how many candidates a choice by load looks at: as many as can be compared
// in a few hundred nanoseconds. Of more it takes those that follow the one chosen
// last; the least loaded of 32 is hardly worse than that of all.
const most = 32

// rotation looks at candidates in turn, so that those that are equal are used in
// turn too, and each comes first some time. It remembers where on the circle it is,
// as RoundRobin does.
type rotation struct {
	at uint64
	id string
}

// start is the place in the list of candidates where the next choice begins.
func (r *rotation) start(v View, index []int) int {
	after := v.after(r.at, r.id)
	k, _ := slices.BinarySearch(index, after)
	if k == len(index) {
		return 0
	}
	return k
}

// use notes that endpoint i was chosen.
func (r *rotation) use(v View, i int) { r.at, r.id = v.places[i], v.Endpoints[i].ID }

// positive says whether a number is known: above zero and finite.
func positive(x float64) bool { return x > 0 && x <= math.MaxFloat64 }
