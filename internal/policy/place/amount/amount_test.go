package amount_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
)

const (
	mi = api.Bytes(1 << 20)
	gi = api.Bytes(1 << 30)
)

func TestFits(t *testing.T) {
	free := api.Resources{CPU: 500, Memory: 380 * mi, Disk: gi}
	for name, c := range map[string]struct {
		demand  api.Resources
		lacking string
	}{
		"fits exactly":        {free, ""},
		"nothing wanted":      {api.Resources{}, ""},
		"cpu":                 {api.Resources{CPU: 1500}, "needs 1500m cpu, 500m free"},
		"memory":              {api.Resources{CPU: 100, Memory: 512 * mi}, "needs 512Mi memory, 380Mi free"},
		"disk":                {api.Resources{Disk: 10 * gi}, "needs 10Gi disk, 1Gi free"},
		"first lacking named": {api.Resources{CPU: 1000, Memory: gi}, "needs 1 cpu, 500m free"},
	} {
		ok, lacking := amount.Fits(free, c.demand)
		if ok != (c.lacking == "") || lacking != c.lacking {
			t.Errorf("%s: %v %q, want %q", name, ok, lacking, c.lacking)
		}
	}
	if ok, lacking := amount.Fits(api.Resources{Memory: -mi}, api.Resources{Memory: 1}); ok || lacking != "needs 1 memory, 0 free" {
		t.Errorf("negative free: %v %q", ok, lacking)
	}
}

func TestAmountsNeverReadLikeAFit(t *testing.T) {
	for _, c := range []struct {
		n        api.Bytes
		up, down string
	}{
		{0, "0", "0"}, {1023, "1023", "1023"}, {512 * mi, "512Mi", "512Mi"}, {1536 * mi, "1.5Gi", "1.5Gi"},
		{1280 * mi, "1280Mi", "1280Mi"}, {380*mi + 1, "380.1Mi", "380Mi"}, {2048 * gi, "2Ti", "2Ti"},
	} {
		if up, down := amount.Needed(1, int64(c.n)), amount.Available(1, int64(c.n)); up != c.up || down != c.down {
			t.Errorf("%d bytes: %q and %q, want %q and %q", c.n, up, down, c.up, c.down)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		free := api.Bytes(rapid.Int64Range(0, 1<<42).Draw(t, "free"))
		need := free + api.Bytes(rapid.Int64Range(1, 1<<30).Draw(t, "more"))
		_, lacking := amount.Fits(api.Resources{Memory: free}, api.Resources{Memory: need})
		a, b, _ := strings.Cut(strings.TrimPrefix(lacking, "needs "), " memory, ")
		if a == strings.TrimSuffix(b, " free") {
			t.Fatalf("%q reads like a fit", lacking)
		}
	})
}

func TestAddSub(t *testing.T) {
	a := api.Resources{CPU: 1, Memory: math.MaxInt64, Disk: 5}
	b := api.Resources{CPU: 2, Memory: 1, Disk: 3}
	if got, want := amount.Add(a, b), (api.Resources{CPU: 3, Memory: math.MaxInt64, Disk: 8}); got != want {
		t.Errorf("Add: %v, want %v", got, want)
	}
	if got, want := amount.Sub(a, b), (api.Resources{CPU: 0, Memory: math.MaxInt64 - 1, Disk: 2}); got != want {
		t.Errorf("Sub: %v, want %v", got, want)
	}
	if got, want := amount.Sub(api.Resources{CPU: -4, Memory: 4}, api.Resources{CPU: -9, Memory: math.MinInt64}), (api.Resources{Memory: 4}); got != want {
		t.Errorf("Sub of negatives: %v, want %v", got, want)
	}
	if got := amount.Add(api.Resources{CPU: math.MinInt64}, api.Resources{CPU: -1}); got.CPU != math.MinInt64 {
		t.Errorf("Add underflows to %d", got.CPU)
	}
}
