package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/server"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// ask is a request of an agent with a body, whose status is returned.
func ask(t testing.TB, e *Engine, method string, v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	server.New(e, e.log).Handler().ServeHTTP(deadlines{w},
		httptest.NewRequestWithContext(t.Context(), method, "/v1/orders", bytes.NewReader(b)))
	return w.Code
}

// deadlines has those of a connection, which a recorder has not.
type deadlines struct{ *httptest.ResponseRecorder }

// SetReadDeadline is asked for by http.ResponseController.
func (deadlines) SetReadDeadline(time.Time) error { return nil }

func someRoute(service string, endpoints int) wire.Route {
	r := wire.Route{V: wire.Version, App: "shop", Service: service, AppNumber: 1, Policy: api.PolicyRoundRobin,
		Ports: []api.Port{{Name: "http", Protocol: "http"}}}
	for i := range endpoints {
		r.Endpoints = append(r.Endpoints, wire.Endpoint{
			Instance: fmt.Sprintf("shop.%s.%d", service, i), Cluster: "edge", Worker: fmt.Sprintf("w%d", i),
			Address: "192.0.2.1:8474",
			Addrs: []netip.Addr{netip.MustParseAddr("fd12:3456:789a:0:64:0:100:1"),
				netip.AddrFrom4([4]byte{10, 129, 7, byte(i)})},
		})
	}
	return r
}

// Changes of routes continue the orders, survive the engine, and are refused where
// they do not continue what is there.
func TestChangesOfRoutes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		at := func(n uint64) wire.Rev { return wire.Rev{Inc: "era", N: n} }
		change := func(from, to uint64, gone string, routes ...wire.Route) int {
			return ask(t, r.e, http.MethodPatch,
				engineapi.EngineChanges{V: wire.Version, From: at(from), To: at(to), Routes: routes,
					Gone: []string{gone}})
		}
		if code := change(1, 2, ""); code != http.StatusConflict {
			t.Errorf("changes of nothing: %d", code)
		}
		o := engineapi.EngineOrders{V: wire.Version, Have: at(1), Orders: []wire.Order{order(0, 1, 100)},
			Routes: []wire.Route{someRoute("a", 2), someRoute("b", 1)}}
		if code := ask(t, r.e, http.MethodPut, o); code != http.StatusNoContent {
			t.Fatal(code)
		}
		if code := change(1, 2, "shop.b", someRoute("a", 3), someRoute("c", 1)); code != http.StatusNoContent {
			t.Fatal(code)
		}
		if code := change(1, 2, ""); code != http.StatusConflict {
			t.Errorf("changes of an older revision: %d", code)
		}
		synctest.Wait()
		for range 2 {
			var keys []string
			for _, x := range r.router.given() {
				keys = append(keys, fmt.Sprintf("%s %d", x.Key(), len(x.Endpoints)))
			}
			if want := []string{"shop.a 3", "shop.c 1"}; !slices.Equal(keys, want) {
				t.Errorf("routes %v, want %v", keys, want)
			}
			if s, err := r.e.State(context.Background(), 0, 0); err != nil || s.Have != at(2) {
				t.Errorf("has %v, %v", s.Have, err)
			}
			if s := r.status(web0); s.Phase != wire.PhaseRunning || r.driver.starts(web0) != 1 {
				t.Errorf("%+v", s)
			}
			r.stop()
			r.start()
		}
		if code := change(2, 3, "shop.c"); code != http.StatusNoContent {
			t.Errorf("a successor refuses changes: %d", code)
		}
		// A disk that is full takes nothing, and nothing is acted on.
		log := filepath.Join(r.dir, engineapi.EngineChangesFile)
		if err := os.Remove(log); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(log, 0o700); err != nil {
			t.Fatal(err)
		}
		if code := change(3, 4, "shop.a"); code != http.StatusInternalServerError {
			t.Errorf("what was not stored: %d", code)
		}
		if n := len(r.router.given()); n != 1 {
			t.Errorf("%d routes", n)
		}
		// The next one does not need the log.
		if code := change(3, 4, "shop.a"); code != http.StatusNoContent {
			t.Errorf("after that: %d", code)
		}
	})
}

// working is an engine with a real router, and what ends it.
func working(b *testing.B) (e *Engine, end func()) {
	r := &rig{dir: b.TempDir(), driver: newFakeDriver(), prober: &fakeProber{}, orphans: &fakeOrphans{}, boot: "boot-1",
		config: newConfig()}
	e, err := New(Options{
		Dir: r.dir, Config: r.config, Drivers: r.drivers(),
		replaced: replacements{orphans: r.orphans, prober: r.prober, boot: r.boot, free: func(int) bool { return true },
			noObjects: true},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	return e, func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkRouteChange is what a change of one endpoint costs a worker that has routes
// to 1,000 services of 10, from the message to the router: as all orders, and as what
// changed. The service network comes on top, see BenchmarkUpdate in overlay.
func BenchmarkRouteChange(b *testing.B) {
	e, end := working(b)
	defer end()
	o := engineapi.EngineOrders{V: wire.Version, Have: wire.Rev{Inc: "era", N: 1}}
	for n := range 1000 {
		o.Routes = append(o.Routes, someRoute(fmt.Sprintf("s%03d", n), 10))
	}
	if code := ask(b, e, http.MethodPut, o); code != http.StatusNoContent {
		b.Fatal(code)
	}
	cost := func(b *testing.B, send func(routes []wire.Route)) {
		cpu, written := usage(b)
		n := 0
		for b.Loop() {
			n++
			send([]wire.Route{someRoute("s007", 9+n%2)})
		}
		cpu2, written2 := usage(b)
		b.ReportMetric(float64(cpu2-cpu)/1e6/float64(n), "cpu-ms/op")
		b.ReportMetric(float64(written2-written)/float64(n), "written-B/op")
	}
	b.Run("all", func(b *testing.B) {
		cost(b, func(routes []wire.Route) {
			o = o.With(&engineapi.EngineChanges{To: wire.Rev{Inc: "era", N: o.Have.N + 1}, Routes: routes})
			if code := ask(b, e, http.MethodPut, o); code != http.StatusNoContent {
				b.Fatal(code)
			}
		})
	})
	b.Run("one", func(b *testing.B) {
		cost(b, func(routes []wire.Route) {
			c := engineapi.EngineChanges{V: wire.Version, From: o.Have, To: wire.Rev{Inc: "era", N: o.Have.N + 1},
				Routes: routes}
			o = o.With(&c)
			if code := ask(b, e, http.MethodPatch, c); code != http.StatusNoContent {
				b.Fatal(code)
			}
		})
	})
}

// usage is the processor time of this process, and what it gave to write.
func usage(t testing.TB) (cpu time.Duration, written int64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/self/io")
	if err == nil {
		for _, line := range bytes.Split(text, []byte("\n")) {
			_, _ = fmt.Sscanf(string(line), "wchar: %d", &written)
		}
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), written
}

// BenchmarkRoutesMemory is what routes to 1,000 services of 10 take in an engine, where
// it was told their endpoints and where it was not.
func BenchmarkRoutesMemory(b *testing.B) {
	for _, endpoints := range []int{10, 0} {
		b.Run(fmt.Sprintf("endpoints=%d", endpoints), func(b *testing.B) {
			for b.Loop() {
				e, end := working(b)
				before := heap()
				o := engineapi.EngineOrders{V: wire.Version, Have: wire.Rev{Inc: "era", N: 1}}
				for n := range 1000 {
					route := someRoute(fmt.Sprintf("s%03d", n), endpoints)
					route.Unasked = endpoints == 0
					o.Routes = append(o.Routes, route)
				}
				text, err := json.Marshal(o)
				if err != nil {
					b.Fatal(err)
				}
				o.Routes = nil
				if code := ask(b, e, http.MethodPut, json.RawMessage(text)); code != http.StatusNoContent {
					b.Fatal(code)
				}
				b.ReportMetric(float64(heap()-before-int64(len(text)))/1e6, "MB")
				b.ReportMetric(float64(len(text))/1e6, "MB-stored")
				end()
			}
		})
	}
}

// heap is what is in use of it.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // far below
}
