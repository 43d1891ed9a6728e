package waste

import (
	"math"

	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/device"
)

// BestFit returns the share of each resource that would be left over, and as the score the
// largest of them, plus 1 on a worker with accelerators that are not requested. A resource
// that the worker lacks does not count (a demand for it has already been rejected), nor do
// accelerators and bandwidth that are not requested. For an instance that requests
// accelerators the score is what would go to waste, see unmatched.
func BestFit(capacity, free, demand *amount.Vec) (score float64, left [amount.Kinds]float64) {
	spared := 0.0
	for j := range amount.Kinds {
		switch {
		case capacity[j] <= 0:
		case j > amount.Disk && demand[j] == 0:
			if j == amount.GPU || j == amount.TPU {
				spared = 1
			}
		default:
			left[j] = float64(free[j]-demand[j]) / float64(capacity[j])
			score = max(score, left[j])
		}
	}
	if demand[amount.GPU] > 0 || demand[amount.TPU] > 0 {
		score = unmatched(capacity, demand, &left)
	}
	return score + spared, left
}

// wholeLeft is the cost of an accelerator left over with all it needs; one left without
// that, or what it needs left without it, costs 1. It makes best fit the choice between
// workers with equal waste; a larger value keeps whole workers free for large requests and
// places fewer instances (docs/experiments.md has both extremes).
const wholeLeft = 1. / 32

// unmatched is how many accelerators' worth of a worker would go to waste: accelerators
// left without cpu, memory or disk, or these left without accelerators, in the ratio in
// which the worker has them; plus wholeLeft for each accelerator left. It is mapped to less
// than 1, so that it compares with the other scores of rom.
func unmatched(capacity, demand *amount.Vec, left *[amount.Kinds]float64) float64 {
	rest := 1.0 // the smallest share left of what accelerators need
	for j := range amount.Disk + 1 {
		if capacity[j] > 0 {
			rest = min(rest, left[j])
		}
	}
	waste := 0.0
	for _, j := range amount.Accelerators {
		if demand[j] > 0 && capacity[j] > 0 {
			waste += (math.Abs(left[j]-rest) + wholeLeft*left[j]) * float64(capacity[j]) / device.Whole
		}
	}
	return waste / (1 + waste)
}
