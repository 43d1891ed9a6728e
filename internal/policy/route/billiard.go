package route

import (
	"cmp"
	"slices"
)

// billiard sends requests in the order of a billiard word: a ball reflected in a box whose sides
// are as long as the endpoints are slow. No order uses the endpoints more evenly (the edge-to-cloud
// study, section IV). The next endpoint has the least (X+Y)/P, where P is its share, Y the number
// of its uses, and X its phase: 1 for the one with the largest share, else 0.
type billiard struct {
	set candidates
	// balls are the endpoints of the best class; heap has the indices of those with a share, the
	// next one first.
	balls []ball
	heap  []int
	// now is the moment of the last use, counted in uses of all.
	now float64
}

type ball struct {
	id    string
	index int // of the endpoint in the view
	share float64
	phase float64 // X
	uses  int64   // Y
}

// next is the moment of its next use. Equal sums and shares give exactly equal moments.
func (b *ball) next() float64 { return (b.phase + float64(b.uses)) / b.share }

var _ Policy = (*billiard)(nil)

// rebaseAfter is how many uses are counted before all restart from low numbers: far below a loss of
// precision.
const rebaseAfter = 1 << 30

// same is the relative difference up to which moments count as equal.
const same = 1e-9

// before says whether ball a is used before b.
func (p *billiard) before(a, b int) bool {
	x, y := &p.balls[a], &p.balls[b]
	s, t := x.next(), y.next()
	if d := s - t; d < -same*max(1, s) || d > same*max(1, s) {
		return d < 0
	}
	return cmp.Or(cmp.Compare(y.share, x.share), cmp.Compare(x.index, y.index)) < 0
}

// Pick implements Policy. It takes O(log n), and O(n) if the view has changed or endpoints were
// tried.
func (p *billiard) Pick(v View, r Request) (int, bool) {
	if len(v.Endpoints) == 0 {
		return 0, false
	}
	p.update(v)
	if len(p.heap) == 0 {
		return 0, false
	}
	if len(r.Tried) == 0 {
		i := p.balls[p.heap[0]].index
		p.use(0)
		return i, true
	}
	index, _ := p.set.look(v, r.Tried)
	if len(index) == 0 {
		return 0, false
	}
	// Some are excluded: take the first in the order that is not.
	best := -1
	for at, k := range p.heap {
		b := &p.balls[k]
		if among(index, b.index) && (best < 0 || p.before(k, p.heap[best])) {
			best = at
		}
	}
	if best < 0 { // all that may be used now are of another class, or have no share
		return index[0], true
	}
	i := p.balls[p.heap[best]].index
	p.use(best)
	return i, true
}

// among says whether a sorted list has i.
func among(index []int, i int) bool {
	_, found := slices.BinarySearch(index, i)
	return found
}

// use counts a use of the ball at a place of the heap.
func (p *billiard) use(at int) {
	b := &p.balls[p.heap[at]]
	p.now = max(p.now, b.next())
	b.uses++
	p.down(at)
	if b.uses >= rebaseAfter {
		p.rebase()
	}
}

// rebase moves all balls back by the same time, which keeps their order.
func (p *billiard) rebase() {
	for k := range p.balls {
		b := &p.balls[k]
		ahead := b.next() - p.now
		b.uses, b.phase = 0, ahead*b.share
	}
	p.now = 0
	p.order()
}

// update makes the balls of a changed view. An existing endpoint stays as far from its next use as
// it was; a newcomer waits for one gap, to avoid a burst.
func (p *billiard) update(v View) {
	index, changed := p.set.look(v, nil)
	if !changed {
		return
	}
	was := make(map[string]ball, len(p.balls))
	for _, b := range p.balls {
		was[b.id] = b
	}
	shares := p.shares(v, index)
	p.balls, p.heap = make([]ball, len(index)), make([]int, 0, len(index))
	fastest := 0
	for k, i := range index {
		b := ball{id: v.Endpoints[i].ID, index: i, share: shares[k]}
		if old, there := was[b.id]; there && old.share > 0 {
			b.phase = max(0, old.next()-p.now) * old.share // what is left of its gap
		} else if len(was) > 0 {
			b.phase = 1
		}
		if b.share > 0 {
			p.heap = append(p.heap, k)
		}
		if b.share > shares[fastest] {
			fastest = k
		}
		p.balls[k] = b
	}
	if len(was) == 0 && len(p.balls) > 0 {
		p.balls[fastest].phase = 1
	}
	p.now = 0
	p.order()
}

// shares of the endpoints at index: by weight, or if none is known, by capacity.
func (p *billiard) shares(v View, index []int) []float64 {
	list, w := make([]*Endpoint, len(index)), make([]float64, len(index))
	rule := capable
	for k, i := range index {
		list[k] = &v.Endpoints[i]
		if positive(list[k].Weight) {
			rule = weighted
		}
	}
	rule(list, w)
	normalise(w)
	for k := range w {
		if w[k] < least { // its turns are so far apart that their moments are no numbers
			w[k] = 0
		}
	}
	normalise(w) // the others get what these had
	return w
}

// least is the smallest share that counts: one use in 1e9.
const least = 1e-9

// order establishes the heap.
func (p *billiard) order() {
	for at := len(p.heap)/2 - 1; at >= 0; at-- {
		p.down(at)
	}
}

// down sifts the ball at a place of the heap down.
func (p *billiard) down(at int) {
	for {
		least := at
		for _, c := range [2]int{2*at + 1, 2*at + 2} {
			if c < len(p.heap) && p.before(p.heap[c], p.heap[least]) {
				least = c
			}
		}
		if least == at {
			return
		}
		p.heap[at], p.heap[least] = p.heap[least], p.heap[at]
		at = least
	}
}

// Weights implements Policy: the shares.
func (p *billiard) Weights(v View) []float64 {
	w := make([]float64, len(v.Endpoints))
	index := bestClass(v, nil, nil)
	for k, share := range p.shares(v, index) {
		w[index[k]] = share
	}
	return w
}
