package placement_test

import (
	"fmt"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
)

// BenchmarkPlaceMany places 10,000 new instances on 10,000 workers in one pass: of one
// service, and of a thousand.
func BenchmarkPlaceMany(b *testing.B) {
	for _, services := range []int{1, 1000} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			const workers, instances = 10_000, 10_000
			s := clustertest.NewSim(b)
			for w := range workers {
				name := fmt.Sprintf("w%05d", w)
				s.AddWorker(name)
				s.Model.Workers[name].EverHeard = true
				s.Model.Workers[name].Info.Capacity = api.Resources{CPU: 64000, Memory: 64 << 30, Disk: 640 << 30}
			}
			for n := range services {
				s.Share(fmt.Sprintf("s%03d", n), instances/services, nil)
			}
			var decided int64
			for b.Loop() {
				t := reconcile.Step(s.Model, s.Now)
				placed := 0
				for _, i := range t.Insts {
					if i.Worker != "" {
						placed++
					}
				}
				if placed != instances {
					b.Fatalf("%d of %d have a worker", placed, instances)
				}
				for _, w := range t.Whys {
					decided += w.Decision.TookNs
				}
				if _, err := t.Encode(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(decided)/float64(b.N)/instances, "ns-decision/instance")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/instances, "ns/instance")
		})
	}
}
