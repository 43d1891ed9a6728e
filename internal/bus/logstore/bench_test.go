package logstore_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
)

// BenchmarkCommit measures acknowledged, fsynced commits of one writer.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("ops=%d", n), func(b *testing.B) {
			s := startNode(b, b.TempDir()).Store()
			ops := make([]bus.Op, n)
			value := make([]byte, 200)
			for i := range ops {
				ops[i] = bus.Put(fmt.Sprintf("inst.app.service.%d", i), value)
			}
			for b.Loop() {
				if _, err := s.Commit(b.Context(), ops...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRev measures a small prefix in a store of 100,000 keys.
func BenchmarkRev(b *testing.B) {
	s := bustest.NewMemStore()
	for i := range 100 {
		ops := make([]bus.Op, 1000)
		for j := range ops {
			ops[j] = bus.Put(fmt.Sprintf("to.%d.%d", i*100+j/10, j%10), nil)
		}
		if _, err := s.Commit(b.Context(), ops...); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if s.Rev("to.17.") == 0 {
			b.Fatal("prefix is empty")
		}
	}
}

// BenchmarkRevOfACluster measures the revision of what a root wants of one of its clusters,
// which it works out for each report: shares and routes of many services, and a last change
// of the instances, which no cluster is told.
func BenchmarkRevOfACluster(b *testing.B) {
	for _, services := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			s := bustest.NewMemStore()
			var ops []bus.Op
			for n := range services {
				for c := range 10 {
					ops = append(ops, bus.Put(fmt.Sprintf("share.c%d.app.service%d", c, n), nil))
				}
				ops = append(ops, bus.Put(fmt.Sprintf("route.app.service%d", n), nil))
			}
			for n := range 10 * services {
				ops = append(ops, bus.Put(fmt.Sprintf("inst.app.service%d.%d", n/10, n%10), nil), bus.Put(fmt.Sprintf("why.app.service%d.%d", n/10, n%10), nil))
			}
			for part := range slices.Chunk(ops, 1000) {
				if _, err := s.Commit(b.Context(), part...); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if s.Rev("share.c7.", "route.", "revoked.", "sealed.c7.", "lease.c7.") == 0 {
					b.Fatal("there is none")
				}
			}
		})
	}
}
