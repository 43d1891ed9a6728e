package place

import (
	"cmp"
	"slices"
	"sort"
)

// fan is how many rows a leaf has at most, and how many children another node.
const fan = 32

// row is a worker as the tree keeps it.
type row struct {
	id       string
	hash     uint64 // of id: its place on the ring
	same     int    // zero where the lens is not of one service
	fullest  float64
	free     vec
	capacity vec
}

func newRow(w *WorkerView, same int) row {
	r := row{id: w.ID, hash: ringOf(w.ID), same: same, free: freeOf(w), capacity: toVec(w.Capacity)}
	for j := range rDisk + 1 { // those that count for whoever is placed
		if r.capacity[j] > 0 {
			r.fullest = max(r.fullest, float64(r.free[j])/float64(r.capacity[j]))
		}
	}
	return r
}

// compare is the order of rows in a tree. Workers with little left of everything
// come first, and those that are alike stand side by side in the order of the ring.
func (r *row) compare(o *row) int {
	switch {
	case r.same != o.same:
		return cmp.Compare(r.same, o.same)
	case r.fullest != o.fullest:
		return cmp.Compare(r.fullest, o.fullest)
	}
	for j := range resources {
		if r.free[j] != o.free[j] {
			return cmp.Compare(r.free[j], o.free[j])
		}
	}
	for j := range resources {
		if r.capacity[j] != o.capacity[j] {
			return cmp.Compare(r.capacity[j], o.capacity[j])
		}
	}
	if r.hash != o.hash {
		return cmp.Compare(r.hash, o.hash)
	}
	return cmp.Compare(r.id, o.id)
}

// box is what is known of all rows below a node.
type box struct {
	n                int
	first            string // the smallest id
	low              row    // in the order of rows
	same             int    // the least
	fullest          float64
	minHash, maxHash uint64
	minFree, maxFree vec
	minCap, maxCap   vec
}

func boxOf(r *row) box {
	return box{n: 1, first: r.id, low: *r, same: r.same, fullest: r.fullest, minHash: r.hash, maxHash: r.hash,
		minFree: r.free, maxFree: r.free, minCap: r.capacity, maxCap: r.capacity}
}

// include makes b the box of what is in b or in o.
func (b *box) include(o *box) {
	if b.n == 0 {
		*b = *o
		return
	}
	b.n += o.n
	b.first = min(b.first, o.first)
	if o.low.compare(&b.low) < 0 {
		b.low = o.low
	}
	b.same, b.fullest = min(b.same, o.same), min(b.fullest, o.fullest)
	b.minHash, b.maxHash = min(b.minHash, o.minHash), max(b.maxHash, o.maxHash)
	for j := range resources {
		b.minFree[j], b.maxFree[j] = min(b.minFree[j], o.minFree[j]), max(b.maxFree[j], o.maxFree[j])
		b.minCap[j], b.maxCap[j] = min(b.minCap[j], o.minCap[j]), max(b.maxCap[j], o.maxCap[j])
	}
}

// node is part of a B+ tree: a leaf has rows, another has kids, all at one depth.
type node struct {
	box
	kids []*node
	rows []row
}

// grow makes a tree of rows, which it sorts. Its nodes have room for more.
func grow(rows []row) *node {
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b row) int { return a.compare(&b) })
	const filled = fan * 3 / 4
	var level []*node
	for part := range slices.Chunk(rows, filled) {
		n := &node{rows: append(make([]row, 0, fan+1), part...)}
		n.sum()
		level = append(level, n)
	}
	for len(level) > 1 {
		var up []*node
		for part := range slices.Chunk(level, filled) {
			n := &node{kids: append(make([]*node, 0, fan+1), part...)}
			n.sum()
			up = append(up, n)
		}
		level = up
	}
	return level[0]
}

// sum makes the box of a node anew.
func (n *node) sum() {
	n.box = box{}
	for i := range n.rows {
		b := boxOf(&n.rows[i])
		n.include(&b)
	}
	for _, k := range n.kids {
		n.include(&k.box)
	}
}

func (n *node) size() int { return len(n.rows) + len(n.kids) }

// below is the index of the kid in which r is, or is to be.
func (n *node) below(r *row) int {
	return max(0, sort.Search(len(n.kids), func(i int) bool { return n.kids[i].low.compare(r) > 0 })-1)
}

// insert adds a row to a tree, which may be nil, and returns it.
func insertRow(root *node, r row) *node {
	if root == nil {
		return grow([]row{r})
	}
	if right := root.add(r); right != nil {
		root = &node{kids: append(make([]*node, 0, fan+1), root, right)}
		root.sum()
	}
	return root
}

// add returns the right half of n if n had to be split.
func (n *node) add(r row) *node {
	b := boxOf(&r)
	n.include(&b)
	if n.kids == nil {
		i := sort.Search(len(n.rows), func(i int) bool { return n.rows[i].compare(&r) > 0 })
		n.rows = slices.Insert(n.rows, i, r)
	} else {
		i := n.below(&r)
		if right := n.kids[i].add(r); right != nil {
			n.kids = slices.Insert(n.kids, i+1, right)
		}
	}
	if n.size() <= fan {
		return nil
	}
	return n.split()
}

func (n *node) split() *node {
	right := &node{}
	if n.kids == nil {
		half := len(n.rows) / 2
		right.rows = append(make([]row, 0, fan+1), n.rows[half:]...)
		clear(n.rows[half:])
		n.rows = n.rows[:half]
	} else {
		half := len(n.kids) / 2
		right.kids = append(make([]*node, 0, fan+1), n.kids[half:]...)
		clear(n.kids[half:])
		n.kids = n.kids[:half]
	}
	n.sum()
	right.sum()
	return right
}

// removeRow takes a row, which must be there, out of a tree and returns the tree.
func removeRow(root *node, r *row) *node {
	root.del(r)
	for root != nil && root.kids != nil && len(root.kids) <= 1 {
		if len(root.kids) == 0 {
			return nil
		}
		root = root.kids[0]
	}
	if root.size() == 0 {
		return nil
	}
	return root
}

func (n *node) del(r *row) {
	if n.kids == nil {
		i := sort.Search(len(n.rows), func(i int) bool { return n.rows[i].compare(r) >= 0 })
		if i < len(n.rows) && n.rows[i].id == r.id {
			n.rows = slices.Delete(n.rows, i, i+1)
		}
	} else {
		i := n.below(r)
		n.kids[i].del(r)
		n.join(i)
	}
	n.sum()
}

// join makes one of kid i and a neighbour if both have become small, so that a tree
// from which much was taken does not stay as wide as it was.
func (n *node) join(i int) {
	if n.kids[i].size() == 0 {
		n.kids = slices.Delete(n.kids, i, i+1)
		return
	}
	if n.kids[i].size() > fan/4 || len(n.kids) == 1 {
		return
	}
	i = min(i, len(n.kids)-2)
	a, b := n.kids[i], n.kids[i+1]
	if a.size()+b.size() > fan*3/4 {
		return
	}
	a.rows, a.kids = append(a.rows, b.rows...), append(a.kids, b.kids...)
	a.include(&b.box)
	n.kids = slices.Delete(n.kids, i+1, i+2)
}

// scarce is how many rows lack a resource, and the one that comes closest: the
// example of its filter, by the rules of sieve.
type scarce struct {
	n    int
	id   string
	free int64
}

func (c *scarce) closest(id string, free int64) {
	if c.id == "" || free > c.free || free == c.free && id < c.id {
		c.id, c.free = id, free
	}
}

// lacking counts the rows that have not what is demanded, each for the first
// resource of which that is so.
func (n *node) lacking(demand *vec, out *[resources]scarce) {
	for j := range resources {
		if demand[j] <= n.minFree[j] {
			continue // enough in all of them
		}
		if demand[j] > n.maxFree[j] {
			out[j].n += n.n
			n.nearest(j, &out[j])
			return
		}
		for _, k := range n.kids {
			k.lacking(demand, out)
		}
		for i := range n.rows {
			if f := firstShort(demand, &n.rows[i].free); f >= 0 {
				out[f].n++
				out[f].closest(n.rows[i].id, n.rows[i].free[f])
			}
		}
		return
	}
}

// nearest is the example of rows that all lack resource j.
func (n *node) nearest(j int, c *scarce) {
	if c.id != "" && (n.maxFree[j] < c.free || n.maxFree[j] == c.free && n.first >= c.id) {
		return
	}
	for _, k := range n.kids {
		k.nearest(j, c)
	}
	for i := range n.rows {
		c.closest(n.rows[i].id, n.rows[i].free[j])
	}
}

// firstShort is the first resource of which there is less than demanded, or -1.
func firstShort(demand, free *vec) int {
	for j := range resources {
		if demand[j] > free[j] {
			return j
		}
	}
	return -1
}
