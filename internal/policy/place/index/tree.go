package index

import (
	"cmp"
	"slices"
	"sort"

	"github.com/verge-edge/verge/internal/policy/place/amount"
)

// Fan is the maximum number of rows of a leaf, and of children of an inner node.
const Fan = 32

// Node is a node of a B+ tree. Leaves have rows, inner nodes have kids, and all leaves
// are at one depth.
type Node struct {
	Box
	Kids []*Node
	Rows []Row
}

// Grow makes a tree of rows, which it sorts. Its nodes have room for more.
func Grow(rows []Row) *Node {
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b Row) int { return a.Compare(&b) })
	const filled = Fan * 3 / 4
	var level []*Node
	for part := range slices.Chunk(rows, filled) {
		n := &Node{Rows: append(make([]Row, 0, Fan+1), part...)}
		n.Sum()
		level = append(level, n)
	}
	for len(level) > 1 {
		var up []*Node
		for part := range slices.Chunk(level, filled) {
			n := &Node{Kids: append(make([]*Node, 0, Fan+1), part...)}
			n.Sum()
			up = append(up, n)
		}
		level = up
	}
	return level[0]
}

// Sum recomputes the box of a node.
func (n *Node) Sum() {
	n.Box = Box{}
	for i := range n.Rows {
		b := boxOf(&n.Rows[i])
		n.include(&b)
	}
	for _, k := range n.Kids {
		n.include(&k.Box)
	}
}

// Size is the number of rows or children of the node itself.
func (n *Node) Size() int { return len(n.Rows) + len(n.Kids) }

// below returns the index of the kid where r is or belongs.
func (n *Node) below(r *Row) int {
	return max(0, sort.Search(len(n.Kids), func(i int) bool { return n.Kids[i].Low.Compare(r) > 0 })-1)
}

// Insert adds a row to a tree, which may be nil, and returns the new root.
func Insert(root *Node, r Row) *Node {
	if root == nil {
		return Grow([]Row{r})
	}
	if right := root.add(r); right != nil {
		root = &Node{Kids: append(make([]*Node, 0, Fan+1), root, right)}
		root.Sum()
	}
	return root
}

// add returns the right half of n if n had to be split.
func (n *Node) add(r Row) *Node {
	b := boxOf(&r)
	n.include(&b)
	if n.Kids == nil {
		i := sort.Search(len(n.Rows), func(i int) bool { return n.Rows[i].Compare(&r) > 0 })
		n.Rows = slices.Insert(n.Rows, i, r)
	} else {
		i := n.below(&r)
		if right := n.Kids[i].add(r); right != nil {
			n.Kids = slices.Insert(n.Kids, i+1, right)
		}
	}
	if n.Size() <= Fan {
		return nil
	}
	return n.split()
}

func (n *Node) split() *Node {
	right := &Node{}
	if n.Kids == nil {
		half := len(n.Rows) / 2
		right.Rows = append(make([]Row, 0, Fan+1), n.Rows[half:]...)
		clear(n.Rows[half:])
		n.Rows = n.Rows[:half]
	} else {
		half := len(n.Kids) / 2
		right.Kids = append(make([]*Node, 0, Fan+1), n.Kids[half:]...)
		clear(n.Kids[half:])
		n.Kids = n.Kids[:half]
	}
	n.Sum()
	right.Sum()
	return right
}

// Remove removes a row, which must be there, and returns the new root.
func Remove(root *Node, r *Row) *Node {
	root.del(r)
	for root != nil && root.Kids != nil && len(root.Kids) <= 1 {
		if len(root.Kids) == 0 {
			return nil
		}
		root = root.Kids[0]
	}
	if root.Size() == 0 {
		return nil
	}
	return root
}

func (n *Node) del(r *Row) {
	if n.Kids == nil {
		i := sort.Search(len(n.Rows), func(i int) bool { return n.Rows[i].Compare(r) >= 0 })
		if i < len(n.Rows) && n.Rows[i].ID == r.ID {
			n.Rows = slices.Delete(n.Rows, i, i+1)
		}
	} else {
		i := n.below(r)
		n.Kids[i].del(r)
		n.join(i)
	}
	n.without(r)
}

// without takes a row that was removed below off the box of a node: only the bounds that it
// was on are computed again.
func (n *Node) without(r *Row) {
	if n.N--; n.N == 0 {
		n.Box = Box{}
		return
	}
	if n.Low.ID == r.ID {
		if n.Kids != nil {
			n.Low = n.Kids[0].Low
		} else {
			n.Low = n.Rows[0]
		}
		n.Same = n.Low.Same // the order begins with it
	}
	if n.First == r.ID {
		n.First = least(n, func(b *Box) string { return b.First }, func(r *Row) string { return r.ID })
	}
	if n.Fullest == r.Fullest {
		n.Fullest = least(n, func(b *Box) float64 { return b.Fullest }, func(r *Row) float64 { return r.Fullest })
	}
	if n.MinHash == r.Hash || n.MaxHash == r.Hash {
		hash := func(r *Row) uint64 { return r.Hash }
		n.MinHash = least(n, func(b *Box) uint64 { return b.MinHash }, hash)
		n.MaxHash = most(n, func(b *Box) uint64 { return b.MaxHash }, hash)
	}
	for j := range amount.Kinds {
		if touches(r.Free[j], n.MinFree[j], n.MaxFree[j]) {
			free := func(r *Row) int64 { return r.Free[j] }
			n.MinFree[j] = least(n, func(b *Box) int64 { return b.MinFree[j] }, free)
			n.MaxFree[j] = most(n, func(b *Box) int64 { return b.MaxFree[j] }, free)
		}
		if touches(r.Capacity[j], n.MinCap[j], n.MaxCap[j]) {
			capacity := func(r *Row) int64 { return r.Capacity[j] }
			n.MinCap[j] = least(n, func(b *Box) int64 { return b.MinCap[j] }, capacity)
			n.MaxCap[j] = most(n, func(b *Box) int64 { return b.MaxCap[j] }, capacity)
		}
	}
}

// least is the smallest of what is asked of the kids or rows of a node, of which there are some.
func least[T cmp.Ordered](n *Node, of func(*Box) T, in func(*Row) T) (x T) {
	for i, k := range n.Kids {
		if v := of(&k.Box); i == 0 || v < x {
			x = v
		}
	}
	for i := range n.Rows {
		if v := in(&n.Rows[i]); i == 0 || v < x {
			x = v
		}
	}
	return x
}

// most is the largest.
func most[T cmp.Ordered](n *Node, of func(*Box) T, in func(*Row) T) (x T) {
	for i, k := range n.Kids {
		if v := of(&k.Box); i == 0 || v > x {
			x = v
		}
	}
	for i := range n.Rows {
		if v := in(&n.Rows[i]); i == 0 || v > x {
			x = v
		}
	}
	return x
}

// join merges kid i with a neighbour if both have become small, so that a tree shrinks
// after many removals.
func (n *Node) join(i int) {
	if n.Kids[i].Size() == 0 {
		n.Kids = slices.Delete(n.Kids, i, i+1)
		return
	}
	if n.Kids[i].Size() > Fan/4 || len(n.Kids) == 1 {
		return
	}
	i = min(i, len(n.Kids)-2)
	a, b := n.Kids[i], n.Kids[i+1]
	if a.Size()+b.Size() > Fan*3/4 {
		return
	}
	a.Rows, a.Kids = append(a.Rows, b.Rows...), append(a.Kids, b.Kids...)
	a.include(&b.Box)
	n.Kids = slices.Delete(n.Kids, i+1, i+2)
}
