package coord_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/internal/policy/coord"
)

// Where round trips follow from places, the place is found from which they follow, so
// that those to others are foretold too; the order of what was measured does not matter.
func TestTrilaterationFindsAPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		somewhere := func() coord.Point {
			p := coord.Point{Height: 1e-3 + 5e-3*rng.Float64(), Error: 0.1}
			for i := range p.Vec {
				p.Vec[i] = rng.NormFloat64() * 0.02
			}
			return p
		}
		target := somewhere()
		var list []coord.Sighting
		for range rapid.IntRange(2*coord.LeastSightings, 40).Draw(t, "sightings") {
			p := somewhere()
			list = append(list, coord.Sighting{From: p, RTT: p.Distance(target)})
		}
		got, err := coord.Trilaterate(list, 1)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			other := somewhere()
			want, is := other.Distance(target).Seconds(), other.Distance(got.Point).Seconds()
			if math.Abs(want-is) > 0.03*want {
				t.Fatalf("%.4f s away, foretold %.4f (margin %v)", want, is, got.Margin)
			}
		}
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		if again, err := coord.Trilaterate(list, 1); err != nil || again != got {
			t.Fatalf("in another order: %+v, %v, want %+v", again, err, got)
		}
	})
}

// Whatever is said: a position that can be, or an error.
func TestTrilaterationOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Float64Range(-1, 1), rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), -1e300, 99, -99}))
		var list []coord.Sighting
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			p := coord.Point{Height: number.Draw(t, "height"), Adjustment: number.Draw(t, "adjustment"), Error: rapid.Float64Range(-1, 2).Draw(t, "error")}
			for i := range p.Vec {
				p.Vec[i] = number.Draw(t, "x")
			}
			list = append(list, coord.Sighting{From: p, RTT: time.Duration(rapid.Int64Range(-1e9, 2e10).Draw(t, "rtt"))})
		}
		if got, err := coord.Trilaterate(list, 1); err == nil && (!got.Point.Valid() || got.Margin < 0) {
			t.Fatalf("%+v", got)
		}
	})
	if _, err := coord.Trilaterate(make([]coord.Sighting, 8), 1); !errors.Is(err, coord.ErrFewSightings) {
		t.Errorf("eight measurements: %v", err)
	}
}

// On the distances of PlanetLab: a node that measures nothing itself is found by twelve
// others, and its round trips to all are foretold. A measurement that is wrong widens
// the margin.
func TestTrilaterationOnPlanetLab(t *testing.T) {
	truth := planetLab(t)[:200]
	for i := range truth {
		truth[i] = truth[i][:len(truth)]
	}
	w := newWorld(truth, 1)
	w.Survey(coord.Rounds)
	rng := rand.New(rand.NewPCG(1, 8))
	var errs []float64
	wider, cases := 0, 0
	for target := range 60 {
		var list []coord.Sighting
		for _, i := range rng.Perm(len(truth)) {
			if i != target && truth[i][target] > 0 && len(list) < 12 {
				list = append(list, coord.Sighting{From: w.Tables[i].Own.Point, RTT: truth[i][target]})
			}
		}
		got, err := coord.Trilaterate(list, 1)
		if err != nil {
			t.Fatal(err)
		}
		for i := range truth {
			if rtt := truth[i][target]; i != target && rtt > 0 {
				errs = append(errs, math.Abs((w.Tables[i].Own.Point.Distance(got.Point)-rtt).Seconds())/rtt.Seconds())
			}
		}
		list[3].RTT *= 5
		if bad, err := coord.Trilaterate(list, 1); err == nil {
			cases++
			if bad.Margin > got.Margin {
				wider++
			}
		}
	}
	median, p90 := quantile(errs, 0.5), quantile(errs, 0.9)
	t.Logf("found by 12 of %d: relative error median %.3f, p90 %.3f; wider with a wrong measurement: %d of %d", len(truth), median, p90, wider, cases)
	if median > 0.25 || wider*10 < cases*9 {
		t.Error("median above 0.25, or the margin does not tell")
	}
}

func BenchmarkTrilaterate(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	var list []coord.Sighting
	for range 12 {
		p := coord.Point{Height: 1e-3, Error: 0.1}
		for i := range p.Vec {
			p.Vec[i] = rng.NormFloat64() * 0.02
		}
		list = append(list, coord.Sighting{From: p, RTT: time.Duration(2e7 + rng.Int64N(6e7))})
	}
	for b.Loop() {
		if _, err := coord.Trilaterate(list, 1); err != nil {
			b.Fatal(err)
		}
	}
}
