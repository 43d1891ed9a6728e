package index

import (
	"cmp"

	"github.com/verge-edge/verge/internal/policy/place/amount"
)

// Row is a worker in the tree.
type Row struct {
	ID       string
	Hash     uint64 // of id: its place on the ring
	Same     int    // zero unless the index is of one service
	Fullest  float64
	Free     amount.Vec
	Capacity amount.Vec
}

// Compare is the order of rows in a tree. Workers with little left of everything come
// first; identical ones are adjacent, in the order of the ring.
func (r *Row) Compare(o *Row) int {
	switch {
	case r.Same != o.Same:
		return cmp.Compare(r.Same, o.Same)
	case r.Fullest != o.Fullest:
		return cmp.Compare(r.Fullest, o.Fullest)
	}
	for j := range amount.Kinds {
		if r.Free[j] != o.Free[j] {
			return cmp.Compare(r.Free[j], o.Free[j])
		}
	}
	for j := range amount.Kinds {
		if r.Capacity[j] != o.Capacity[j] {
			return cmp.Compare(r.Capacity[j], o.Capacity[j])
		}
	}
	if r.Hash != o.Hash {
		return cmp.Compare(r.Hash, o.Hash)
	}
	return cmp.Compare(r.ID, o.ID)
}

// Box bounds all rows below a node.
type Box struct {
	N                int
	First            string // the smallest id
	Low              Row    // in the order of rows
	Same             int    // the least
	Fullest          float64
	MinHash, MaxHash uint64
	MinFree, MaxFree amount.Vec
	MinCap, MaxCap   amount.Vec
}

func boxOf(r *Row) Box {
	return Box{N: 1, First: r.ID, Low: *r, Same: r.Same, Fullest: r.Fullest, MinHash: r.Hash, MaxHash: r.Hash,
		MinFree: r.Free, MaxFree: r.Free, MinCap: r.Capacity, MaxCap: r.Capacity}
}

// include extends b by o.
func (b *Box) include(o *Box) {
	if b.N == 0 {
		*b = *o
		return
	}
	b.N += o.N
	b.First = min(b.First, o.First)
	if o.Low.Compare(&b.Low) < 0 {
		b.Low = o.Low
	}
	b.Same, b.Fullest = min(b.Same, o.Same), min(b.Fullest, o.Fullest)
	b.MinHash, b.MaxHash = min(b.MinHash, o.MinHash), max(b.MaxHash, o.MaxHash)
	for j := range amount.Kinds {
		b.MinFree[j], b.MaxFree[j] = min(b.MinFree[j], o.MinFree[j]), max(b.MaxFree[j], o.MaxFree[j])
		b.MinCap[j], b.MaxCap[j] = min(b.MinCap[j], o.MinCap[j]), max(b.MaxCap[j], o.MaxCap[j])
	}
}

// touches says whether a row is on the bound of the smallest or the largest of a kind, which
// may then be others without it. Where all are alike it makes no difference.
func touches(r, least, most int64) bool { return least != most && (r == least || r == most) }

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// fnv1a continues the 64-bit FNV-1a hash h with s and a separator. It is the same
// on every machine and in every process, and so are replayed decisions.
func fnv1a(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h * fnvPrime // as if followed by a zero byte
}

// RingOf returns the position of an id on the hash ring.
func RingOf(id string) uint64 { return mix(fnv1a(fnvOffset, id)) }

// mix spreads every bit over all others (the finalizer of MurmurHash3). Without it,
// ids that differ only in the last character, as those of workers do, win ties by
// that character: w8 and w9 four times as often as w0 to w7.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
