package cluster

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
)

// checkIndex holds that the index by which a pass placed is what it would be if it
// were made anew of what is used now.
func checkIndex(tb testing.TB, t *tx) {
	tb.Helper()
	was := t.fleet
	if was == nil {
		return
	}
	told := t.told
	t.fleet, t.told, t.portsOf = nil, nil, nil
	for key := range told {
		t.rate(key)
	}
	views := func(f *place.Fleet, key string) []place.WorkerView {
		out := slices.Clone(f.Views(key))
		slices.SortFunc(out, func(a, b place.WorkerView) int { return cmp.Compare(a.ID, b.ID) })
		return out
	}
	for key := range t.m.Shares {
		if now, then := views(t.index(), key), views(was, key); !reflect.DeepEqual(now, then) {
			tb.Fatalf("the index has for %s\n%+v\nis\n%+v", key, then, now)
		}
	}
	t.fleet = was
}

// BenchmarkPlaceMany places 10,000 new instances on 10,000 workers in one pass: of one
// service, and of a thousand.
func BenchmarkPlaceMany(b *testing.B) {
	for _, services := range []int{1, 1000} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			const workers, instances = 10_000, 10_000
			s := newSim(b)
			for w := range workers {
				name := fmt.Sprintf("w%05d", w)
				s.addWorker(name)
				s.m.Workers[name].EverHeard = true
				s.m.Workers[name].Info.Capacity = api.Resources{CPU: 64000, Memory: 64 << 30, Disk: 640 << 30}
			}
			for n := range services {
				s.share(fmt.Sprintf("s%03d", n), instances/services, nil)
			}
			var decided int64
			for b.Loop() {
				t := s.m.step(s.now)
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
