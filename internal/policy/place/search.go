package place

import (
	"math"

	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/index"
)

// search finds the best rows, as Schedule ranks them. For rom it descends into the subtree
// with the best bound first and prunes those that cannot contain one of the best; for other
// schedulers it visits all rows that fit.
type search struct {
	how    *scorer
	demand amount.Vec
	soft   bool
	seed   uint64
	skip   map[string]bool // ids that are not candidates
	view   func(id string) *WorkerView
	best   [maxRanked]candidate
	n      int
}

// bound is the best that a row below a node can be, in the order of candidates.
type bound struct {
	same  int
	score float64
	key   uint64
	at    int // index of the kid
}

func (b *bound) before(o *bound) bool {
	switch {
	case b.same != o.same:
		return b.same < o.same
	case b.score != o.score:
		return b.score < o.score
	}
	return b.key < o.key
}

// rounding covers the rounding errors of a bound that is not computed like the score.
const rounding = 1e-9

// bound returns the best possible row within b; false if none fits.
func (s *search) bound(b *index.Box) (out bound, ok bool) {
	taken := 0.0 // the largest share of a worker that the demand can take
	for j := range amount.Kinds {
		d := s.demand[j]
		if d > b.MaxFree[j] {
			return out, false
		}
		if d > 0 {
			taken = max(taken, float64(d)/float64(max(d, b.MinCap[j])))
		}
		// For identical rows this is the score, to the bit.
		if b.MinFree[j] > d && (j <= amount.Disk || d > 0) {
			out.score = max(out.score, float64(b.MinFree[j]-d)/float64(b.MaxCap[j]))
		}
	}
	if s.how != scorers[ROM] {
		return bound{score: math.Inf(-1)}, true
	}
	// The resource with the largest free share now keeps at least this much.
	out.score = max(out.score, b.Fullest-taken-rounding)
	for _, j := range amount.Accelerators {
		if s.demand[j] == 0 && b.MinCap[j] > 0 {
			out.score++ // as rom has it
			break
		}
	}
	if s.soft {
		out.same = b.Same
	}
	if s.seed <= b.MinHash || s.seed > b.MaxHash {
		out.key = b.MinHash - s.seed
	}
	return out, true
}

// beaten says whether nothing within the bound can be among the best.
func (s *search) beaten(b *bound) bool {
	if s.n < maxRanked {
		return false
	}
	w := &s.best[maxRanked-1]
	switch {
	case b.same != w.same:
		return b.same > w.same
	case b.score != w.score:
		return b.score > w.score
	}
	return b.key > w.key
}

func (s *search) visit(n *index.Node) {
	for i := range n.Rows {
		s.try(&n.Rows[i])
	}
	var order [index.Fan]bound
	k := 0
	for i, kid := range n.Kids {
		b, ok := s.bound(&kid.Box)
		if !ok {
			continue
		}
		b.at = i
		p := k
		for ; p > 0 && b.before(&order[p-1]); p-- {
			order[p] = order[p-1]
		}
		order[p] = b
		k++
	}
	for i := range k {
		if s.beaten(&order[i]) {
			return
		}
		s.visit(n.Kids[order[i].at])
	}
}

// try puts a row among the best if it fits and is one of them.
func (s *search) try(r *index.Row) {
	if amount.FirstShort(&s.demand, &r.Free) >= 0 {
		return
	}
	c := candidate{key: r.Hash - s.seed}
	s.how.judge(&c, fit{capacity: r.Capacity, free: r.Free, demand: s.demand}, r.Same, s.soft)
	if s.n == maxRanked {
		w := &s.best[maxRanked-1]
		if o := c.compare(w); o > 0 || o == 0 && c.key > w.key {
			return
		}
	}
	if s.skip[r.ID] {
		return
	}
	c.view = s.view(r.ID)
	s.n = insert(&s.best, s.n, c)
}
