package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// manyWorkers is a core of n workers, each of which has been heard and runs an instance.
func manyWorkers(tb testing.TB, n int, now time.Time) *core {
	c := newTestCore(tb, bus.NewMemStore())
	for k := range n {
		name := fmt.Sprintf("w%05d", k)
		w := state.NewWorker(state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{V: wire.Version, Name: name}}, now)
		w.EverHeard, w.Heard, w.HeartbeatInterval = true, now, time.Second
		c.m.Workers[name] = w
		id := instanceID("app", "web", k)
		c.m.Insts[id] = &wire.Instance{V: wire.Version, ID: id, App: "app", Service: "web", Ordinal: k, Worker: name, State: wire.Running, Ready: true}
	}
	return c
}

// A pass in which nobody was lost looks at no worker for what became of it.
func TestNobodyLostCostsNothing(t *testing.T) {
	now := time.Now()
	c := manyWorkers(t, 1000, now)
	if n := testing.AllocsPerRun(10, func() { c.tellLosses(now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkManyLost judges 2,000 workers that fall silent at once, each with an instance.
func BenchmarkManyLost(b *testing.B) {
	const workers = 2000
	now := time.Now()
	for b.Loop() {
		b.StopTimer()
		c := manyWorkers(b, workers, now)
		for _, w := range c.m.Workers {
			w.Connected = false
		}
		c.lastPass, c.planned = now.Add(time.Minute), time.Minute
		b.StartTimer()
		c.judge(now.Add(time.Minute))
		if len(c.losses) != workers {
			b.Fatalf("%d of %d are lost", len(c.losses), workers)
		}
	}
}

// Who lists instances makes no transaction for each.
func TestAListOfInstancesIsOneLook(t *testing.T) {
	const workers = 1000
	b := backend{&Cluster{core: manyWorkers(t, workers, time.Now())}}
	if n := testing.AllocsPerRun(5, func() {
		if list, err := b.Instances(t.Context(), "", ""); err != nil || len(list) != workers {
			t.Fatal(len(list), err)
		}
	}); n > 3*workers {
		t.Errorf("%v allocations for %d instances", n, workers)
	}
}
