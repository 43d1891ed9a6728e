package estimate

import (
	"math"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/wire"
)

// CleanSpread drops a distribution with any impossible number: if one is wrong, the
// others cannot be trusted.
func CleanSpread(s wire.Spread) wire.Spread {
	for _, f := range [...]float64{s.Sum, s.Mean, s.Dev, s.Max} {
		if math.IsNaN(f) || f < 0 || f > math.MaxInt64 {
			return wire.Spread{}
		}
	}
	return s
}

// Estimate is how many replicas are expected to fit, and how many can fit at most.
type Estimate struct {
	Expected, AtMost int
	// Short is the first resource without room for even one, else -1.
	Short int
}

// Of estimates, like place.Expect, for a clean aggregate from which pending is still
// to be deducted.
func Of(a *wire.Aggregate, demand, pending amount.Vec, wanted int) Estimate {
	if a.Workers <= 0 || wanted <= 0 {
		return Estimate{Short: -1}
	}
	e := Estimate{Expected: wanted, AtMost: wanted, Short: -1}
	for j, s := range SpreadsOf(a) {
		if demand[j] <= 0 {
			continue
		}
		d := float64(demand[j])
		taken := math.Ceil(float64(pending[j]) / d)
		low, high := Fitting(*s, a.Workers, d, float64(wanted)+taken)
		// Between two proven bounds the middle has the least worst-case error;
		// rounding up keeps it above zero if one may still fit.
		room := math.Ceil((low+high)/2) - taken
		room = min(room, math.Floor((s.Sum-float64(pending[j]))/d))
		if room < 1 && e.Short < 0 {
			e.Short = j
		}
		e.Expected = int(min(float64(e.Expected), max(0, room)))
		e.AtMost = int(min(float64(e.AtMost), high))
	}
	return e
}

// Fitting bounds how many pieces of size d fit into workers whose free amounts
// (whole numbers) have distribution s, counting no further than wanted on each
// worker. low stops at wanted.
func Fitting(s wire.Spread, workers int, d, wanted float64) (low, high float64) {
	n := float64(workers)
	mean := s.Sum / n
	// Samuelson: no value is further than dev·√(n−1) from the mean.
	top := min(s.Sum, mean+s.Dev*math.Sqrt(n-1)*(1+amount.Slack)+mean*amount.Slack)
	// The smallest and the largest are at least this far from the mean.
	apart := 0.0
	if workers > 1 {
		apart = s.Dev / math.Sqrt(n-1)
	}
	known := s.Max > 0 // an operator may withhold the maximum
	if known {
		top = min(s.Sum, s.Max)
	}
	for k := 1.0; k <= wanted && k*d <= top && low < wanted; k++ {
		if k > maxDepth {
			high = math.Inf(1)
			break
		}
		x := k * d
		most := min(n, math.Floor(s.Sum/x*(1+amount.Slack))) // Markov
		if off := x - mean*(1+amount.Slack); off > 0 {
			most = min(most, math.Floor(n*cantelli(s.Dev, off)))
		}
		if x > mean-apart+mean*amount.Slack {
			most = min(most, n-1) // the smallest has no room
		}
		least := 0.0
		// Fewer than x is at most x−1.
		if off := mean*(1-amount.Slack) - (x - 1); off > 0 {
			least = n - math.Floor(n*cantelli(s.Dev, off))
			if known { // Markov from above
				least = max(least, math.Ceil(n*off/(top-(x-1))*(1-amount.Slack)))
			}
		}
		if known || x <= mean+apart-mean*amount.Slack {
			least, most = max(least, 1), max(most, 1) // the largest has room
		}
		low += min(least, most)
		high += most
	}
	high = min(high, math.Floor(s.Sum/d))
	// Each worker wastes at most d−1.
	low = max(low, math.Ceil((s.Sum-n*(d-1))/d*(1-amount.Slack)))
	return min(low, wanted, high), high
}

// maxDepth bounds the work of an estimate: beyond that many pieces on one worker
// only the sum limits it.
const maxDepth = 2 * api.MaxReplicas

// cantelli bounds the share of values that lie off (> 0) or more away from the
// mean on one side: dev² / (dev² + off²).
func cantelli(dev, off float64) float64 {
	r := dev / off
	return r * r / (1 + r*r) * (1 + amount.Slack)
}

// SpreadsOf returns the distributions of the free amounts, in the order of amount.Vec.
func SpreadsOf(a *wire.Aggregate) [amount.Kinds]*wire.Spread {
	return [amount.Kinds]*wire.Spread{&a.CPU, &a.Memory, &a.Disk, &a.VGPUs, &a.VTPUs, &a.In, &a.Out}
}
