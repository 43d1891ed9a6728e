package workers_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/pace"
	"github.com/verge-edge/verge/internal/cluster/workers"
)

// A pass in which nobody was lost looks at no worker for what became of it.
func TestNobodyLostCostsNothing(t *testing.T) {
	now := time.Now()
	c := clustertest.ManyWorkers(t, 1000, now)
	if n := testing.AllocsPerRun(10, func() { workers.TellLosses(c, now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkManyLost judges 2,000 workers that fall silent at once, each with an instance.
func BenchmarkManyLost(b *testing.B) {
	const nWorkers = 2000
	now := time.Now()
	for b.Loop() {
		b.StopTimer()
		c := clustertest.ManyWorkers(b, nWorkers, now)
		for _, w := range c.M.Workers {
			w.Connected = false
		}
		pace.Memory(c.M).LastPass, pace.Memory(c.M).Planned = now.Add(time.Minute), time.Minute
		b.StartTimer()
		workers.Judge(c, now.Add(time.Minute))
		if len(workers.Memory(c.M).Losses) != nWorkers {
			b.Fatalf("%d of %d are lost", len(workers.Memory(c.M).Losses), nWorkers)
		}
	}
}
