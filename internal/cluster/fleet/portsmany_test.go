package fleet_test

import (
	"fmt"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/wire"
)

// BenchmarkPlacePorts places an instance of each of a thousand services that name the same
// port: on workers in the service network, where that means nothing, on workers that have a
// machine each, and on workers that share one.
func BenchmarkPlacePorts(b *testing.B) {
	const services, workers = 1000, 100
	for _, kind := range []string{"overlay", "machines", "loopback"} {
		b.Run(kind, func(b *testing.B) {
			s := clustertest.NewSim(b)
			for w := range workers {
				name := fmt.Sprintf("w%03d", w)
				s.AddWorker(name)
				s.Model.Workers[name].EverHeard = true
				info := &s.Model.Workers[name].Info
				info.Capacity = api.Resources{CPU: 64000, Memory: 64 << 30, Disk: 640 << 30}
				switch kind {
				case "overlay":
					info.Network = &wire.NetworkInfo{Mode: wire.NetworkOverlay}
				case "loopback":
					info.Address = "127.0.0.1:8474"
				}
			}
			for n := range services {
				s.Share(fmt.Sprintf("s%03d", n), 1,
					func(v *api.Service) { v.Ports = []api.Port{{Name: "http", Number: 8080}} })
			}
			want := map[string]int{"overlay": services, "machines": workers, "loopback": 1}[kind]
			b.ReportAllocs()
			for b.Loop() {
				t := reconcile.Step(s.Model, s.Now)
				placed := 0
				for _, i := range t.Insts {
					if i.Worker != "" {
						placed++
					}
				}
				if placed != want {
					b.Fatalf("%d of %d have a worker", placed, want)
				}
			}
		})
	}
}
