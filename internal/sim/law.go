package sim

import (
	"math"
	"math/rand/v2"
)

// Law draws how much work a request is, next to the mean: its own mean is 1.
type Law func(r *rand.Rand) float64

// Fixed work: every request is alike.
func Fixed(*rand.Rand) float64 { return 1 }

// Exponential work: no memory, as queueing theory likes it.
func Exponential(r *rand.Rand) float64 { return r.ExpFloat64() }

// Lognormal work with this coefficient of variation (standard deviation by mean),
// which is above 0: many small requests and a few that are very large.
func Lognormal(cv float64) Law {
	s2 := math.Log(1 + cv*cv)
	s := math.Sqrt(s2)
	return func(r *rand.Rand) float64 { return math.Exp(s*r.NormFloat64() - s2/2) }
}
