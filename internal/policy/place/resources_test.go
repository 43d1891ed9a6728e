package place

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
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
		ok, lacking := Fits(free, c.demand)
		if ok != (c.lacking == "") || lacking != c.lacking {
			t.Errorf("%s: %v %q, want %q", name, ok, lacking, c.lacking)
		}
	}
	if ok, lacking := Fits(api.Resources{Memory: -mi}, api.Resources{Memory: 1}); ok || lacking != "needs 1 memory, 0 free" {
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
		if up, down := needed(1, int64(c.n)), available(1, int64(c.n)); up != c.up || down != c.down {
			t.Errorf("%d bytes: %q and %q, want %q and %q", c.n, up, down, c.up, c.down)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		free := api.Bytes(rapid.Int64Range(0, 1<<42).Draw(t, "free"))
		need := free + api.Bytes(rapid.Int64Range(1, 1<<30).Draw(t, "more"))
		_, lacking := Fits(api.Resources{Memory: free}, api.Resources{Memory: need})
		a, b, _ := strings.Cut(strings.TrimPrefix(lacking, "needs "), " memory, ")
		if a == strings.TrimSuffix(b, " free") {
			t.Fatalf("%q reads like a fit", lacking)
		}
	})
}

func TestAddSub(t *testing.T) {
	a := api.Resources{CPU: 1, Memory: math.MaxInt64, Disk: 5}
	b := api.Resources{CPU: 2, Memory: 1, Disk: 3}
	if got, want := Add(a, b), (api.Resources{CPU: 3, Memory: math.MaxInt64, Disk: 8}); got != want {
		t.Errorf("Add: %v, want %v", got, want)
	}
	if got, want := Sub(a, b), (api.Resources{CPU: 0, Memory: math.MaxInt64 - 1, Disk: 2}); got != want {
		t.Errorf("Sub: %v, want %v", got, want)
	}
	if got, want := Sub(api.Resources{CPU: -4, Memory: 4}, api.Resources{CPU: -9, Memory: math.MinInt64}), (api.Resources{Memory: 4}); got != want {
		t.Errorf("Sub of negatives: %v, want %v", got, want)
	}
	if got := Add(api.Resources{CPU: math.MinInt64}, api.Resources{CPU: -1}); got.CPU != math.MinInt64 {
		t.Errorf("Add underflows to %d", got.CPU)
	}
}

func TestAggregate(t *testing.T) {
	workers := []WorkerView{
		{ID: "a", Capacity: api.Resources{CPU: 1000, Memory: 4 * gi}, Used: api.Resources{CPU: 400, Memory: 4 * gi}},
		{ID: "b", Capacity: api.Resources{CPU: 2000, Memory: 2 * gi}, Used: api.Resources{CPU: 0, Memory: 3 * gi}},
		{ID: "lost", Suspect: true, Capacity: api.Resources{CPU: 64000}},
	}
	a := Aggregate(workers)
	cpu, mem, disk, capacity, ready, suspect := a.CPU, a.Memory, a.Disk, a.Capacity, a.Workers, a.Suspect
	if ready != 2 || suspect != 1 {
		t.Errorf("%d ready, %d suspect", ready, suspect)
	}
	if want := (api.Resources{CPU: 3000, Memory: 6 * gi}); capacity != want {
		t.Errorf("capacity %v, want %v", capacity, want)
	}
	if cpu.Sum != 2600 || cpu.Mean != 1300 || cpu.Dev != 700 || cpu.Max != 2000 {
		t.Errorf("cpu %+v", cpu)
	}
	if mem.Sum != 0 || mem.Max != 0 || disk.Sum != 0 {
		t.Errorf("overcommitted memory is not free: %+v, disk %+v", mem, disk)
	}
	if a := Aggregate(nil); a.Workers != 0 || a.CPU.Sum != 0 || a.CPU.Dev != 0 || a.Capacity != (api.Resources{}) {
		t.Errorf("no workers: %+v", a)
	}
}

// What Aggregate says is consistent: the bounds of Expect rest on it.
func TestAggregateIsConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := drawWorkers(t, 1<<45, 40)
		a := Aggregate(workers)
		m, n := a.Memory, a.Workers
		nearly := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, a, b) }
		if !nearly(m.Mean*float64(n), m.Sum) || m.Max > m.Sum || m.Max < m.Mean*(1-1e-9) {
			t.Fatalf("inconsistent %+v of %d workers", m, n)
		}
		if m.Max-m.Mean > m.Dev*math.Sqrt(float64(n-1))+1e-6*max(1, m.Mean) {
			t.Fatalf("%+v of %d workers breaks Samuelson's inequality", m, n)
		}
	})
}
