package block

import (
	"cmp"
	"slices"

	"github.com/verge-edge/verge/internal/wire"
)

// span is a half-open range, wide enough for the end of all numbers.
type span struct{ from, to uint64 }

func spans(list []wire.Block) []span {
	out := make([]span, 0, len(list))
	for _, b := range list {
		if b.N > 0 {
			out = append(out, span{uint64(b.From), uint64(b.From) + uint64(b.N)})
		}
	}
	slices.SortFunc(out, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return out
}

func blocks(list []span) []wire.Block {
	var out []wire.Block
	for _, s := range list {
		for s.from < s.to { // 2^32 numbers do not fit one block
			n := min(s.to-s.from, 1<<32-1)
			out = append(out, wire.Block{From: uint32(s.from), N: uint32(n)})
			s.from += n
		}
	}
	return out
}

// Union sorts and merges blocks.
func Union(lists ...[]wire.Block) []wire.Block {
	var out []span
	for _, s := range spans(slices.Concat(lists...)) {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
		} else {
			out = append(out, s)
		}
	}
	return blocks(out)
}

// Without is list minus taken, sorted.
func Without(list, taken []wire.Block) []wire.Block {
	cut := spans(Union(taken))
	var out []span
	for _, s := range spans(Union(list)) {
		for _, c := range cut {
			if c.to <= s.from || c.from >= s.to {
				continue
			}
			if c.from > s.from {
				out = append(out, span{s.from, c.from})
			}
			s.from = c.to
			if s.from >= s.to {
				break
			}
		}
		if s.from < s.to {
			out = append(out, s)
		}
	}
	return blocks(out)
}

// Count counts the numbers in blocks that do not overlap.
func Count(list []wire.Block) int {
	n := 0
	for _, b := range list {
		n += int(b.N)
	}
	return n
}

// Has says whether a block has n.
func Has(list []wire.Block, n uint32) bool {
	return slices.ContainsFunc(list, func(b wire.Block) bool {
		return n >= b.From && uint64(n) < uint64(b.From)+uint64(b.N)
	})
}

// First returns the first n numbers of a list, or all.
func First(list []wire.Block, n int) []wire.Block {
	var out []wire.Block
	for _, b := range list {
		if n <= 0 {
			break
		}
		b.N = uint32(min(uint64(b.N), uint64(n)))
		out = append(out, b)
		n -= int(b.N)
	}
	return out
}
