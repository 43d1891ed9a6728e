package route

import (
	"math"
	"slices"
)

// candidates are the endpoints for a choice by load: the usable ones of the best class. They are
// cached until the view changes.
type candidates struct {
	of      *Endpoint
	n       int
	changes uint64
	class   []int
	left    []int // those that were not tried
}

// look returns the indices of the candidates in v, ascending, valid until the next call, and
// whether the view has changed. It allocates only if the view has grown, and takes O(n) only if the
// view has changed or endpoints were tried.
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

// Usable returns the indices of the endpoints that may get a request: the usable ones of the best
// class, ascending, those of a revision on trial only if there are no others. It reuses the memory
// of index.
func (v View) Usable(index []int) []int {
	if out := bestClass(v.of(oldOnes), nil, index[:0]); len(out) > 0 {
		return out
	}
	return bestClass(v, nil, index[:0])
}

// bestClass appends the untried usable endpoints of the best class.
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

// most bounds the candidates that a choice by load compares, which takes a few hundred nanoseconds.
// If there are more it compares those that follow the last choice; the least loaded of 32 is hardly
// worse than that of all.
const most = 32

// rotation starts each choice at another candidate, so that equal ones take turns. It remembers its
// place on the ring, as RoundRobin does.
type rotation struct {
	at uint64
	id string
}

// start is the index of the candidate at which the next choice begins.
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

// positive says whether a number is valid: above zero and finite.
func positive(x float64) bool { return x > 0 && x <= math.MaxFloat64 }
