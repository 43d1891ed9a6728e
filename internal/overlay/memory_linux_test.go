package overlay

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/overlay/overlaytest"
	"github.com/verge-edge/verge/internal/overlay/peer"
	"github.com/verge-edge/verge/internal/overlay/wg"
	"github.com/verge-edge/verge/internal/wire"
)

// BenchmarkMemory is what the service network adds to a worker's process at rest,
// with 100 services of three endpoints each and 50 peers. What WireGuard in the
// process takes beside it after traffic is in BenchmarkMemory of package wg.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		before := overlaytest.Resident(b)
		w := newWorldWith(b, func(o *Options) {
			o.Paths = &PathOptions{
				TLS:     func() (*tls.Config, error) { return nil, errors.New("nobody is reached here") },
				Changed: func(peer.Paths, Tunnel) {},
			}
			o.Reached = func(*wire.Endpoint) bool { return true }
		})
		w.set()
		w.attach("shop.web.0", 1)
		var routes []wire.Route
		for i := range 100 {
			r := routeTo("shop", 1, fmt.Sprintf("s%d", i))
			r.Policy = api.PolicyRoundRobin
			for e := range 3 {
				r.Endpoints = append(r.Endpoints, wire.Endpoint{
					Instance: fmt.Sprintf("shop.s%d.%d", i, e), Cluster: "c", Worker: fmt.Sprintf("w%d", (3*i+e)%50),
					Address: "192.0.2.1:8474",
					Addrs: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("fd12:3456:789a:0:%x:0:100:%x", 100+(3*i+e)%50,
						i+1))},
				})
			}
			routes = append(routes, r)
		}
		w.set(routes...)
		w.n.mu.Lock()
		p := w.n.paths
		w.n.mu.Unlock()
		if p == nil {
			b.Skip("no WireGuard here")
		}
		for i := range 50 {
			k, err := wg.EnsureKey(filepath.Join(b.TempDir(), fmt.Sprint(i)))
			if err == nil {
				err = p.dev.Set(wg.Peer{
					Key: k.Public(), Endpoint: netip.MustParseAddrPort("192.0.2.9:1"),
					Allowed: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("fd12:3456:789a:0:%x::/80", 100+i))},
				})
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		st, err := w.n.Stats()
		if err != nil || st.Services < 100 {
			b.Fatalf("%+v, %v", st, err)
		}
		b.ReportMetric(float64(overlaytest.Resident(b)-before)/(1<<20), "MB-added")
		b.ReportMetric(float64(st.Services), "services")
	}
}
