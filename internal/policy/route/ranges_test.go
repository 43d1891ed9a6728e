package route_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/internal/policy/route"
)

const all = 65536

// drawWeights draws some, of all sizes.
func drawWeights(t *rapid.T, most int) []float64 {
	w := rapid.SliceOfN(rapid.OneOf(
		rapid.Float64Range(0, 1), rapid.Float64Range(1e-5, 1e-4),
		rapid.SampledFrom([]float64{0, 1, 1e-7, 1e-300}),
	), 0, most).Draw(t, "weights")
	return w
}

func TestRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWeights(t, 40)
		total := 0.0
		for _, x := range w {
			total += x
		}
		got := route.Ranges(w, all)
		if total == 0 {
			if got != nil {
				t.Fatalf("%v of nothing", got)
			}
			return
		}
		counts, next, starved := make([]int, len(w)), uint32(0), 0
		for k, r := range got {
			if r.First != next || r.Last < r.First || k > 0 && r.Index <= got[k-1].Index {
				t.Fatalf("%+v after %d", r, next)
			}
			next = r.Last + 1
			counts[r.Index] = int(r.Last-r.First) + 1
		}
		if next != all {
			t.Fatalf("they end at %d", next)
		}
		for _, x := range w { // those that get more than their share, since they must not starve
			if share := x / total * all; x/total >= route.Negligible && share < 1 {
				starved++
			}
		}
		for i, x := range w {
			share := x / total * all
			switch d := math.Abs(float64(counts[i]) - share); {
			case x == 0 && counts[i] != 0:
				t.Fatalf("weight 0 has %d", counts[i])
			case x/total >= route.Negligible && counts[i] == 0:
				t.Fatalf("weight %v has nothing", x/total)
			case starved < 2 && d >= 1+1e-6, d > float64(starved)+1:
				t.Fatalf("weight %v has %d, exact is %v", x/total, counts[i], share)
			}
		}
		if !slices.Equal(got, route.Ranges(w, all)) {
			t.Fatal("another time it is different")
		}
	})
}

func TestRangesOfMany(t *testing.T) {
	w := make([]float64, 10_000)
	for i := range w {
		w[i] = 0.1 / float64(len(w)) // what alpha 0.9 leaves to each
	}
	w[17] += 0.9
	got := route.Ranges(w, all)
	if len(got) != len(w) || got[len(got)-1].Last != all-1 {
		t.Fatalf("%d ranges to %d", len(got), got[len(got)-1].Last)
	}
	if share := float64(got[17].Last-got[17].First+1) / all; share < 0.8 {
		t.Errorf("the nearest has %v", share)
	}
	if got := route.Ranges(make([]float64, 100), all); got != nil {
		t.Errorf("%v", got)
	}
	if got := route.Ranges([]float64{1, 1, 1}, 2); len(got) != 2 {
		t.Errorf("three on two numbers: %v", got)
	}
	if got := route.Ranges([]float64{math.NaN(), 1}, all); len(got) != 1 || got[0].Index != 1 {
		t.Errorf("not a number: %v", got)
	}
}

func TestSequential(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWeights(t, 2000)
		total := 0.0
		for _, x := range w {
			total += x
		}
		p := route.Sequential(w)
		through := 1.0
		for i, x := range w {
			if !(p[i] >= 0 && p[i] <= 1) {
				t.Fatalf("probability %v", p[i])
			}
			want := 0.0
			if total > 0 {
				want = x / total
			}
			if got := through * p[i]; math.Abs(got-want) > 1e-9 {
				t.Fatalf("rule %d takes %v, want %v", i, got, want)
			}
			through *= 1 - p[i]
		}
		if total > 0 && through != 0 {
			t.Fatalf("%v falls through", through)
		}
	})
}

func BenchmarkRanges(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := make([]float64, 100)
	for i := range w {
		w[i] = rng.Float64()
	}
	b.ReportAllocs()
	for b.Loop() {
		route.Ranges(w, all)
	}
}
