package place

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
)

const (
	mi = api.Bytes(1 << 20)
	gi = api.Bytes(1 << 30)
)

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
