package waste_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/waste"
)

func TestTheMostFrequentAreUsual(t *testing.T) {
	count := map[waste.Kind]int{{CPU: 1}: 0}
	for n := range 2 * waste.MaxUsual {
		count[waste.Kind{CPU: 100, Memory: 1 << 20, Count: n}] = n
	}
	u := waste.UsualOf(count)
	if len(u) != waste.MaxUsual || u[0].Count != 2*waste.MaxUsual-1 || !slices.IsSortedFunc(u,
		func(a, b waste.Kind) int { return b.Count - a.Count }) {
		t.Errorf("%v", u)
	}
	bad := waste.Usual{{CPU: -1, Count: 1}, {Memory: -1, Count: 1}, {}, {Count: math.MaxInt}, {CPU: 5, Count: 2}}
	if got := bad.Clean(); len(got) != 1 || got[0] != bad[4] {
		t.Errorf("%v", got)
	}
}

// Of two workers on which the demand fits, the better one is where what is left is of use: not
// the one on which it leaves memory without cpu for any other.
func TestWhatIsLeftIsOfUse(t *testing.T) {
	u := waste.Usual{{CPU: 1000, Memory: 1 << 30, Count: 1}}
	capacity := amount.Vec{amount.CPU: 8000, amount.Memory: 32 << 30}
	demand := amount.Vec{amount.CPU: 1500, amount.Memory: 1 << 30}
	score := func(cpu int64) float64 {
		free := amount.Vec{amount.CPU: cpu, amount.Memory: 16 << 30}
		return u.Score(&capacity, &free, &demand, 1)
	}
	if a, b := score(2000), score(4000); a <= b {
		t.Errorf("with 0.5 cpu left %g, with 2.5 %g", a, b)
	}
	if a, b := score(2500), score(2000); a >= b {
		t.Errorf("with 1 cpu left %g, with 0.5 %g", a, b)
	}
}

// Whatever is usual, a score is a number.
func TestAnyScoreIsANumber(t *testing.T) {
	vec := rapid.Custom(func(t *rapid.T) (v amount.Vec) {
		for j := range v {
			v[j] = rapid.SampledFrom([]int64{0, 1, 1000, 1 << 40, math.MaxInt64 / 4}).Draw(t, "amount")
		}
		return v
	})
	rapid.Check(t, func(t *rapid.T) {
		u := waste.Usual{{CPU: 1000, Count: rapid.IntRange(0, 5).Draw(t, "n")}, {Memory: math.MaxInt64, Count: 3}}
		capacity, demand := vec.Draw(t, "capacity"), vec.Draw(t, "demand")
		free := demand
		for j := range free {
			capacity[j] = max(capacity[j], demand[j])
			free[j] += rapid.Int64Range(0, capacity[j]-demand[j]).Draw(t, "left")
		}
		x := u.Score(&capacity, &free, &demand, rapid.Float64Range(0, 2).Draw(t, "even"))
		if math.IsNaN(x) || math.IsInf(x, 0) {
			t.Fatalf("%v", x)
		}
	})
}
