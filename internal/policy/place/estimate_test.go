package place

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid" // property tests that shrink their counterexamples

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/estimate"
	"github.com/verge-edge/verge/internal/wire"
)

// truth packs replicas onto the workers one by one: what really fits, up to
// wanted. Identical replicas cannot be packed better than worker by worker.
func truth(workers []WorkerView, demand api.Resources, wanted int) int {
	d, sum := amount.ToVec(demand), 0
	for i := range workers {
		if workers[i].Suspect {
			continue
		}
		fit := int64(wanted)
		for j, f := range freeOf(&workers[i]) {
			if d[j] > 0 {
				fit = min(fit, f/d[j])
			}
		}
		sum += int(fit)
	}
	return min(sum, wanted)
}

func aggregateOf(workers []WorkerView) wire.Aggregate {
	a := Aggregate(workers)
	a.V, a.Runtimes = wire.Version, []string{"process"}
	return a
}

// fleet draws workers of a few sizes, each filled to some degree: the shapes
// are a young cluster, a busy one, one that is nearly full, and one where a few
// are empty and the rest full.
func fleet(r *rand.Rand, n int) []WorkerView {
	fill := [...]func() float64{
		func() float64 { return 0.2 * r.Float64() },
		r.Float64,
		func() float64 { return 0.8 + 0.2*r.Float64() },
		func() float64 { return float64(min(1, r.IntN(4))) * (0.9 + 0.1*r.Float64()) },
	}[r.IntN(4)]
	sizes := 1 + r.IntN(3)
	out := make([]WorkerView, n)
	for i := range out {
		size := int64(1) << r.IntN(sizes)
		w := WorkerView{ID: fmt.Sprintf("w%d", i), Runtimes: []string{"process"}}
		w.Capacity = api.Resources{CPU: api.CPU(2000 * size), Memory: api.Bytes(size << 32), Disk: api.Bytes(size << 36)}
		used := fill()
		// Resources are used together, more or less.
		part := func(of int64) int64 { return int64(float64(of) * min(1, used*(0.8+0.4*r.Float64()))) }
		w.Used = api.Resources{CPU: api.CPU(part(2000 * size)), Memory: api.Bytes(part(size << 32)), Disk: api.Bytes(part(size<<36) / 4)}
		out[i] = w
	}
	return out
}

// The quality of the estimate against what really fits, over fleets of 1 to 100
// workers and demands from a sliver to most of a worker.
func TestExpectQuality(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const rounds = 20000
	var accept, refuse, falseAccept, falseRefuse, starved, disappointed int
	var over, under, total float64
	for range rounds {
		workers := fleet(r, 1+r.IntN(100))
		size := math.Pow(2, -6*r.Float64())
		demand := api.Resources{CPU: api.CPU(2000 * size), Memory: api.Bytes(float64(int64(1)<<32) * size * (0.5 + r.Float64())), Disk: 100 << 20}
		wanted := 1 + r.IntN(2*len(workers))
		fits := truth(workers, demand, wanted)
		expected, atMost := Expect(aggregateOf(workers), demand, wanted)
		if fits > atMost {
			t.Fatalf("%d fit but at most %d were thought possible", fits, atMost)
		}
		total += float64(wanted)
		over += float64(max(0, expected-fits))
		under += float64(max(0, fits-expected))
		if fits == wanted {
			accept++
			if expected < wanted {
				falseRefuse++
			}
		} else {
			refuse++
			if expected == wanted {
				falseAccept++
			}
		}
		if expected == 0 && fits > 0 {
			starved++
		}
		if expected > 0 && fits == 0 {
			disappointed++
		}
	}
	share := func(n, of int) float64 { return float64(n) / float64(of) }
	t.Logf("%d fit all, %d don't; false refuse %.4f, false accept %.4f; offered though none fits %.4f; replicas too many %.4f, too few %.4f",
		accept, refuse, share(falseRefuse, accept), share(falseAccept, refuse), share(disappointed, rounds), over/total, under/total)
	if accept < rounds/5 || refuse < rounds/5 {
		t.Fatalf("the fleets are one-sided: %d fit all, %d don't", accept, refuse)
	}
	for _, bound := range []struct {
		what    string
		is, max float64
	}{
		{"false refuse", share(falseRefuse, accept), 0.02},
		{"false accept", share(falseAccept, refuse), 0.12},
		{"offered though none fits", share(disappointed, rounds), 0.02},
		{"replicas too many", over / total, 0.04},
		{"replicas too few", under / total, 0.01},
	} {
		if bound.is > bound.max {
			t.Errorf("%s: %.4f, want at most %.4f", bound.what, bound.is, bound.max)
		}
	}
	if starved > 0 {
		t.Errorf("%d clusters with room for one were passed over: a refusal needs a proof", starved)
	}
}

func drawWorkers(t *rapid.T, most int64, atMost int) []WorkerView {
	n := rapid.IntRange(1, atMost).Draw(t, "workers")
	out := make([]WorkerView, n)
	for i := range out {
		out[i] = WorkerView{ID: fmt.Sprintf("w%d", i), Capacity: api.Resources{Memory: api.Bytes(rapid.Int64Range(0, most).Draw(t, "free"))}}
	}
	return out
}

// Both bounds hold for every distribution, with the maximum known and kept.
func TestFittingBoundsAreProven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := int64(1) << rapid.IntRange(0, 45).Draw(t, "magnitude")
		workers := drawWorkers(t, most, 30)
		demand := api.Resources{Memory: api.Bytes(rapid.Int64Range(1+most/1000, 1+most).Draw(t, "demand"))}
		wanted := rapid.IntRange(1, 200).Draw(t, "wanted")
		a := aggregateOf(workers)
		if rapid.Bool().Draw(t, "maximum kept") {
			a.Memory.Max = 0
		}
		fits := float64(truth(workers, demand, wanted))
		low, high := estimate.Fitting(a.Memory, a.Workers, float64(demand.Memory), float64(wanted))
		if low > fits || high < fits {
			t.Fatalf("bounds %v…%v, but %v fit", low, high, fits)
		}
	})
}

// Mean, deviation and maximum determine two values.
func TestExpectIsExactForOneOrTwoWorkers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := drawWorkers(t, 1<<30, 2)
		demand := api.Resources{Memory: api.Bytes(rapid.Int64Range(1<<20, 1<<30).Draw(t, "demand"))}
		wanted := rapid.IntRange(1, 5000).Draw(t, "wanted")
		fits := truth(workers, demand, wanted)
		if got, _ := Expect(aggregateOf(workers), demand, wanted); got != fits {
			t.Fatalf("expected %d, %d fit", got, fits)
		}
	})
}

// Nobody is passed over without a proof, and nobody expected beyond one.
func TestExpectLiesBelowProof(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, demand := aggregateOf(genWorkers(t)), genResources(t, "demand")
		wanted := rapid.IntRange(1, 100).Draw(t, "wanted")
		if rapid.Bool().Draw(t, "maxima kept") {
			a.CPU.Max, a.Memory.Max, a.Disk.Max = 0, 0, 0
		}
		expected, atMost := Expect(a, demand, wanted)
		if expected > atMost || (expected == 0) != (atMost == 0) || atMost > wanted {
			t.Fatalf("expected %d, at most %d, wanted %d", expected, atMost, wanted)
		}
	})
}

func TestExpectEdges(t *testing.T) {
	even := wire.Spread{Sum: 4000, Mean: 1000, Max: 1000}
	for name, c := range map[string]struct {
		a      wire.Aggregate
		demand api.Resources
		wanted int
		want   int
	}{
		"no workers":              {wire.Aggregate{FreeCapacity: wire.FreeCapacity{CPU: even}}, api.Resources{CPU: 1}, 5, 0},
		"nothing wanted":          {wire.Aggregate{Workers: 4, FreeCapacity: wire.FreeCapacity{CPU: even}}, api.Resources{CPU: 1}, 0, 0},
		"no demand":               {wire.Aggregate{Workers: 4}, api.Resources{}, 5, 5},
		"exactly one each":        {wire.Aggregate{Workers: 4, FreeCapacity: wire.FreeCapacity{CPU: even}}, api.Resources{CPU: 1000}, 9, 4},
		"one too large for all":   {wire.Aggregate{Workers: 4, FreeCapacity: wire.FreeCapacity{CPU: even}}, api.Resources{CPU: 1001}, 9, 0},
		"maximum kept":            {wire.Aggregate{Workers: 4, FreeCapacity: wire.FreeCapacity{CPU: wire.Spread{Sum: 4000, Mean: 1000}}}, api.Resources{CPU: 500}, 9, 8},
		"the scarcest decides":    {wire.Aggregate{Workers: 4, FreeCapacity: wire.FreeCapacity{CPU: even, Memory: wire.Spread{Sum: 400, Mean: 100, Max: 100}}}, api.Resources{CPU: 100, Memory: 50}, 99, 8},
		"NaN is nothing free":     {wire.Aggregate{Workers: 4, FreeCapacity: wire.FreeCapacity{CPU: wire.Spread{Sum: math.NaN(), Mean: 1000, Max: 1000}}}, api.Resources{CPU: 1}, 5, 0},
		"infinity is nothing":     {wire.Aggregate{Workers: 4, FreeCapacity: wire.FreeCapacity{CPU: wire.Spread{Sum: math.Inf(1), Mean: 1, Max: 1}}}, api.Resources{CPU: 1}, 5, 0},
		"negative is nothing":     {wire.Aggregate{Workers: 4, FreeCapacity: wire.FreeCapacity{CPU: wire.Spread{Sum: 4000, Mean: 1000, Dev: -1, Max: 1000}}}, api.Resources{CPU: 1}, 5, 0},
		"negative demand is none": {wire.Aggregate{Workers: 4}, api.Resources{CPU: -7}, 3, 3},
	} {
		if got, _ := Expect(c.a, c.demand, c.wanted); got != c.want {
			t.Errorf("%s: expected %d replicas, want %d", name, got, c.want)
		}
	}
}

// A sliver on one giant worker must not cost time: the loop is bounded.
func TestFittingIsBounded(t *testing.T) {
	s := wire.Spread{Sum: 1 << 50, Mean: 1 << 50, Max: 1 << 50}
	if low, high := estimate.Fitting(s, 1, 1, 1<<40); low != 1<<40 || high < low {
		t.Errorf("bounds %v…%v of a sliver on a giant", low, high)
	}
}
