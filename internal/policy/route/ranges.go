package route

import (
	"cmp"
	"slices"
)

// Negligible is the weight below which Ranges may give nothing: less than one connection in a
// million.
const Negligible = 1e-6

// Range is the numbers from First to Last, inclusive, that stand for the replica at Index of the
// weights.
type Range struct {
	Index       int
	First, Last uint32
}

// Ranges divides the numbers 0 to n-1 by weights that are not negative, for a map keyed by a random
// or counted number below n. The ranges are ascending, without gaps, in the order of the weights,
// and depend only on the arguments. There are none if all weights are 0 or n is 0.
//
// Each replica has its share to within 1/n, and every one with a weight of at least Negligible gets
// a number, as long as there are enough. If that takes more than rounding leaves over (many
// replicas with less than 1/n each), the others give it, in proportion to what they have.
func Ranges(weights []float64, n uint32) []Range {
	counts := divide(weights, n)
	var out []Range
	at := uint32(0)
	for i, c := range counts {
		if c > 0 {
			out = append(out, Range{Index: i, First: at, Last: at + c - 1})
			at += c
		}
	}
	return out
}

// divide returns how many of n numbers each weight gets.
func divide(weights []float64, n uint32) []uint32 {
	counts := make([]uint32, len(weights))
	w := slices.Clone(weights)
	if slices.Max(append(w, 0)) <= 0 || n == 0 {
		return counts
	}
	normalise(w)
	lack := make([]float64, len(w)) // of the exact part, below 1
	order := make([]int, len(w))
	given := 0
	for i, x := range w {
		exact := x * float64(n)
		counts[i] = uint32(exact)
		if counts[i] == 0 && x >= Negligible {
			counts[i] = 1
		}
		lack[i], order[i] = exact-float64(counts[i]), i
		given += int(counts[i])
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lack[b], lack[a]) })
	for _, i := range order {
		if given >= int(n) {
			break
		}
		if w[i] > 0 {
			counts[i]++
			given++
		}
	}
	if over := given - int(n); over > 0 {
		takeBack(counts, over)
	}
	return counts
}

// takeBack takes over numbers from the counts above one, in proportion to their excess, and if all
// are one, from the last.
func takeBack(counts []uint32, over int) {
	spare := 0
	for _, c := range counts {
		spare += max(int(c)-1, 0)
	}
	share := min(1, float64(over)/float64(max(spare, 1)))
	for i, c := range counts {
		give := min(int(float64(max(int(c)-1, 0))*share), over)
		counts[i] -= uint32(give)
		over -= give
	}
	for least := uint32(1); over > 0; least = 0 { // what rounding left
		for i := len(counts) - 1; i >= 0 && over > 0; i-- {
			if counts[i] > least {
				counts[i]--
				over--
			}
		}
		if least == 0 {
			return
		}
	}
}

// Sequential turns weights into the probabilities of rules tried in order, each of which takes what
// reaches it with its probability (proxy-mity, equation 8). The last with a weight takes all; those
// after it, and those without a weight, take nothing.
func Sequential(weights []float64) []float64 {
	w := slices.Clone(weights)
	p := make([]float64, len(w))
	if slices.Max(append(slices.Clone(w), 0)) <= 0 {
		return p
	}
	normalise(w)
	// Backwards: the product of what earlier rules let through is the sum of the weights from here
	// on, without the errors of a product of thousands.
	rest := 0.0
	for i := len(w) - 1; i >= 0; i-- {
		rest += w[i]
		if w[i] > 0 {
			p[i] = w[i] / rest
		}
	}
	return p
}
