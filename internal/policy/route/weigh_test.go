package route_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/internal/policy/route"
)

// The weight of a pod is (W_n / M_n) / max(W) · 256.
func TestWeighByProfile(t *testing.T) {
	weights := func(of ...route.Capable) (got []float64) {
		list := make([]route.Endpoint, len(of))
		route.Weigh(list, func(i int) route.Capable { return of[i] })
		for _, e := range list {
			got = append(got, e.Weight)
		}
		return got
	}
	for name, tc := range map[string]struct {
		of   []route.Capable
		want []float64
	}{
		"the study's rule":             {[]route.Capable{{"a", 400, 0}, {"b", 100, 0}, {"b", 100, 0}}, []float64{256, 32, 32}},
		"a profile beats processors":   {[]route.Capable{{"a", 50, 4000}, {"b", 100, 1000}}, []float64{128, 256}},
		"others by processors":         {[]route.Capable{{"a", 100, 1000}, {"b", 300, 1000}, {"c", 0, 2000}}, []float64{64, 192, 256}},
		"nothing of it is known":       {[]route.Capable{{"a", 100, 1000}, {"b", 0, 0}}, []float64{256, 0}},
		"no profile":                   {[]route.Capable{{"a", 0, 1000}, {"b", 0, 2000}}, []float64{128, 256}},
		"what was measured is no use":  {[]route.Capable{{"a", math.NaN(), 1000}, {"b", math.Inf(1), 2000}}, []float64{128, 256}},
		"no processors where measured": {[]route.Capable{{"a", 10, 0}, {"b", 0, 2000}}, []float64{256, 0}},
	} {
		if got := weights(tc.of...); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// Whatever was measured: weights are numbers from 0 to 256, the best node without a
// neighbour has 256, and what is known of nobody changes nothing.
func TestWeightsOfAnyProfile(t *testing.T) {
	number := rapid.OneOf(rapid.Float64(), rapid.Float64Range(0.001, 1e6), rapid.Just(0.0), rapid.Just(math.NaN()), rapid.Just(math.Inf(1)), rapid.Just(math.MaxFloat64))
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) route.Capable {
			return route.Capable{Node: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "node"), Serves: number.Draw(t, "serves"), CPU: number.Draw(t, "cpu")}
		}), 1, 12).Draw(t, "endpoints")
		known := map[string]route.Capable{}
		for i := range of { // one node has one profile
			if c, ok := known[of[i].Node]; ok {
				of[i] = c
			}
			known[of[i].Node] = of[i]
		}
		list := make([]route.Endpoint, len(of))
		route.Weigh(list, func(i int) route.Capable { return of[i] })
		sums := map[string]float64{}
		for i, e := range list {
			if !(e.Weight >= 0 && e.Weight <= 256) {
				t.Fatalf("endpoint %d of %+v has weight %v", i, of, e.Weight)
			}
			sums[of[i].Node] += e.Weight
		}
		most := 0.0
		for _, s := range sums {
			most = max(most, s)
		}
		if most != 0 && math.Abs(most-256) > 1e-6 {
			t.Fatalf("the best node of %+v has %v", of, most)
		}
	})
}
