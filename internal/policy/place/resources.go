package place

import (
	"math"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/estimate"
	"github.com/verge-edge/verge/internal/wire"
)

// Expect estimates from its aggregate how many replicas of demand a cluster can
// take, counting no further than wanted. atMost is proven never to be less than
// what fits (up to wanted); expected lies in 0…atMost and is 0 only if atMost is.
// Package estimate has the derivation.
func Expect(a wire.Aggregate, demand api.Resources, wanted int) (expected, atMost int) {
	a = cleanAggregate(a)
	e := estimate.Of(&a, amount.ToVec(amount.Clean(demand)), amount.Vec{}, wanted)
	return e.Expected, e.AtMost
}

// Aggregate summarizes the workers of a cluster for the root: the distribution of
// the free amounts of the ready ones, their total capacity, and how many are ready
// and suspect; nothing else is set. Deviations are those of the whole population
// (÷ n), as the bounds of Expect require.
func Aggregate(workers []WorkerView) wire.Aggregate {
	var a wire.Aggregate
	var sum, largest amount.Vec
	for i := range workers {
		if workers[i].Suspect {
			a.Suspect++
			continue
		}
		a.Workers++
		a.Capacity = amount.Add(a.Capacity, amount.Clean(workers[i].Capacity))
		for j, f := range freeOf(&workers[i]) {
			sum[j] = amount.AddInt(sum[j], f)
			largest[j] = max(largest[j], f)
		}
	}
	if a.Workers == 0 {
		return a
	}
	n := float64(a.Workers)
	var mean, squares [amount.Kinds]float64
	for j := range amount.Kinds {
		mean[j] = float64(sum[j]) / n
	}
	// The second pass keeps precision: with Σx² − n·mean² the deviation of equal
	// large disks would consist of rounding errors.
	for i := range workers {
		if workers[i].Suspect {
			continue
		}
		for j, f := range freeOf(&workers[i]) {
			off := float64(f) - mean[j]
			squares[j] += off * off
		}
	}
	for j, s := range estimate.SpreadsOf(&a) {
		*s = wire.Spread{Sum: float64(sum[j]), Mean: mean[j], Dev: math.Sqrt(squares[j] / n), Max: float64(largest[j])}
	}
	return a
}

// freeOf returns what can still be reserved on a worker; never negative.
func freeOf(w *WorkerView) amount.Vec {
	c, u := amount.ToVec(w.Capacity), amount.ToVec(w.Used)
	for j := range amount.Kinds {
		c[j] = amount.SubInt(c[j], u[j])
	}
	return c
}
