package sim

import (
	"math"
	"math/rand/v2"
)

// Law draws the work of a request relative to the mean: its own mean is 1.
type Law func(r *rand.Rand) float64

// Fixed work: all requests are alike.
func Fixed(*rand.Rand) float64 { return 1 }

// Exponential work: memoryless.
func Exponential(r *rand.Rand) float64 { return r.ExpFloat64() }

// Lognormal work with this coefficient of variation (standard deviation by mean), above 0: many
// small requests and a few very large ones.
func Lognormal(cv float64) Law {
	s2 := math.Log(1 + cv*cv)
	s := math.Sqrt(s2)
	return func(r *rand.Rand) float64 { return math.Exp(s*r.NormFloat64() - s2/2) }
}

// Bimodal work: this share of the requests takes times as much as the others.
func Bimodal(share, times float64) Law {
	small := 1 / (1 - share + share*times)
	return func(r *rand.Rand) float64 {
		if r.Float64() < share {
			return small * times
		}
		return small
	}
}
