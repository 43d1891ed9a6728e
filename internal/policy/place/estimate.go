package place

import (
	"math"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// Expect estimates from its aggregate how many replicas of demand a cluster can
// take, counting no further than wanted. atMost is proven never to be less than
// what fits (up to wanted); expected lies in 0…atMost and is 0 only where
// atMost is. See the package comment for the derivation.
func Expect(a wire.Aggregate, demand api.Resources, wanted int) (expected, atMost int) {
	a = cleanAggregate(a)
	e := expect(&a, toVec(cleanResources(demand)), vec{}, wanted)
	return e.expected, e.atMost
}

type estimate struct {
	expected, atMost int
	// short is the first resource that leaves no room for even one, else -1.
	short int
}

// expect is Expect for a clean aggregate from which pending has still to be
// taken off.
func expect(a *wire.Aggregate, demand, pending vec, wanted int) estimate {
	if a.Workers <= 0 || wanted <= 0 {
		return estimate{short: -1}
	}
	e := estimate{expected: wanted, atMost: wanted, short: -1}
	for j, s := range spreadsOf(a) {
		if demand[j] <= 0 {
			continue
		}
		d := float64(demand[j])
		taken := math.Ceil(float64(pending[j]) / d)
		low, high := fitting(*s, a.Workers, d, float64(wanted)+taken)
		// Between two proven bounds the middle errs least at worst; rounding up
		// keeps it above zero wherever one may still fit.
		room := math.Ceil((low+high)/2) - taken
		room = min(room, math.Floor((s.Sum-float64(pending[j]))/d))
		if room < 1 && e.short < 0 {
			e.short = j
		}
		e.expected = int(min(float64(e.expected), max(0, room)))
		e.atMost = int(min(float64(e.atMost), high))
	}
	return e
}

// fitting bounds how many pieces of size d fit into workers whose free amounts
// (whole numbers) have distribution s, counting no further than wanted on each
// worker. low stops at wanted.
func fitting(s wire.Spread, workers int, d, wanted float64) (low, high float64) {
	n := float64(workers)
	mean := s.Sum / n
	// Samuelson: no value is further than dev·√(n−1) from the mean.
	top := min(s.Sum, mean+s.Dev*math.Sqrt(n-1)*(1+slack)+mean*slack)
	// The smallest and the largest are at least this far from the mean.
	apart := 0.0
	if workers > 1 {
		apart = s.Dev / math.Sqrt(n-1)
	}
	known := s.Max > 0 // an operator may keep the maximum to himself
	if known {
		top = min(s.Sum, s.Max)
	}
	for k := 1.0; k <= wanted && k*d <= top && low < wanted; k++ {
		if k > maxDepth {
			high = math.Inf(1)
			break
		}
		x := k * d
		most := min(n, math.Floor(s.Sum/x*(1+slack))) // Markov
		if off := x - mean*(1+slack); off > 0 {
			most = min(most, math.Floor(n*cantelli(s.Dev, off)))
		}
		if x > mean-apart+mean*slack {
			most = min(most, n-1) // the smallest has no room
		}
		least := 0.0
		// Fewer than x is at most x−1.
		if off := mean*(1-slack) - (x - 1); off > 0 {
			least = n - math.Floor(n*cantelli(s.Dev, off))
			if known { // Markov from above
				least = max(least, math.Ceil(n*off/(top-(x-1))*(1-slack)))
			}
		}
		if known || x <= mean+apart-mean*slack {
			least, most = max(least, 1), max(most, 1) // the largest has room
		}
		low += min(least, most)
		high += most
	}
	high = min(high, math.Floor(s.Sum/d))
	// Each worker wastes at most d−1.
	low = max(low, math.Ceil((s.Sum-n*(d-1))/d*(1-slack)))
	return min(low, wanted, high), high
}

// maxDepth bounds the work of an estimate: beyond as many pieces on one worker
// it is content with the sum.
const maxDepth = 2 * api.MaxReplicas

// slack is the relative error granted to sums of floating-point numbers, always
// to the side that keeps a bound true.
const slack = 1e-12

// cantelli bounds the share of values that lie off (> 0) or more away from the
// mean on one side: dev² / (dev² + off²).
func cantelli(dev, off float64) float64 {
	r := dev / off
	return r * r / (1 + r*r) * (1 + slack)
}
