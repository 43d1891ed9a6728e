package overlay

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/verge-edge/verge/internal/overlay/overlaytest"
	"github.com/verge-edge/verge/internal/wire"
)

// BenchmarkUpdate is what news of routes cost a worker with 1,000 services of 10
// endpoints on other workers, from the routes to the kernel: of all of them, and of
// one that lost an endpoint.
func BenchmarkUpdate(b *testing.B) {
	w := newWorldWith(b, func(o *Options) { o.Reached = func(*wire.Endpoint) bool { return true } })
	w.set()
	w.attach("shop.web.0", 1)
	var routes []wire.Route
	for i := range 1000 {
		r := routeTo("shop", 1, fmt.Sprintf("s%d", i))
		for e := range 10 {
			r.Endpoints = append(r.Endpoints, wire.Endpoint{
				Instance: fmt.Sprintf("shop.s%d.%d", i, e), Cluster: "c", Worker: fmt.Sprintf("w%d", (i+e)%50),
				Address: "192.0.2.1:8474",
				Addrs: []netip.Addr{
					netip.MustParseAddr(fmt.Sprintf("fd12:3456:789a:0:%x:0:100:%x", 100+(i+e)%50, i+1)),
					netip.AddrFrom4([4]byte{10, 129, byte((i + e) % 50), byte(1 + i/50*10%250 + e)}),
				},
			})
		}
		routes = append(routes, r)
	}
	w.set(routes...)
	one := slices.Clone(routes)
	one[500].Endpoints = one[500].Endpoints[1:]
	cost := func(b *testing.B, f func()) {
		began := overlaytest.CPU()
		n := 0
		for b.Loop() {
			f()
			n++
		}
		b.ReportMetric(float64(overlaytest.CPU()-began)/1e6/float64(n), "cpu-ms/op")
	}
	b.Run("full", func(b *testing.B) {
		cost(b, func() { w.n.table.Forget(); w.set(routes...) })
	})
	b.Run("one", func(b *testing.B) {
		now, next := routes, one
		cost(b, func() { w.set(next...); now, next = next, now })
	})
}
