package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/wire"
)

// BenchmarkEntryLocal is one connection through an entry to a local instance:
// connect, greeting, close.
func BenchmarkEntryLocal(b *testing.B) {
	a := newWorker(b, newAuthority(b), "a", nil)
	a.addGreeter(b, "app.web.0")
	a.SetRoutes([]wire.Route{webRoute(a.endpoint("app.web.0"))})
	addr := a.addr(b, "tcp")
	b.ReportAllocs()
	for b.Loop() {
		c, _, err := greetFrom(addr)
		if err != nil {
			b.Fatal(err)
		}
		netconn.Cut(c)
	}
}

// BenchmarkEntryRemote is the same through the data port of another worker.
func BenchmarkEntryRemote(b *testing.B) {
	ca := newAuthority(b)
	a, other := newWorker(b, ca, "a", nil), newWorker(b, ca, "b", nil)
	other.addGreeter(b, "app.web.0")
	a.SetRoutes([]wire.Route{webRoute(other.endpoint("app.web.0"))})
	addr := a.addr(b, "tcp")
	b.ReportAllocs()
	for b.Loop() {
		c, _, err := greetFrom(addr)
		if err != nil {
			b.Fatal(err)
		}
		netconn.Cut(c)
	}
}

// benchmarkGateway measures requests to the gateway of one worker for an instance of
// another or of the same; make makes each.
func benchmarkGateway(b *testing.B, gate, home *worker, c *http.Client, make func() *http.Request) {
	home.addHTTP(b, "app.web.0", says("hello"))
	gate.SetRoutes([]wire.Route{hostRoute(host, home.endpoint("app.web.0"))})
	b.ReportAllocs()
	for b.Loop() {
		res, err := c.Do(make())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res.Status, err)
		}
		_ = res.Body.Close()
	}
}

// same is a GET that is sent again and again.
func same(b *testing.B, gate *worker) func() *http.Request {
	req := gate.request(b, "GET", host, "/", nil)
	return func() *http.Request { return req }
}

// BenchmarkGatewayLocal is a request over kept connections to a local instance;
// client and instance are part of the figures.
func BenchmarkGatewayLocal(b *testing.B) {
	a := newWorker(b, newAuthority(b), "a", nil)
	benchmarkGateway(b, a, a, client(b), same(b, a))
}

// BenchmarkGatewayRemote is the same to an instance of another worker.
func BenchmarkGatewayRemote(b *testing.B) {
	ca := newAuthority(b)
	a := newWorker(b, ca, "a", nil)
	benchmarkGateway(b, a, newWorker(b, ca, "b", nil), client(b), same(b, a))
}

// BenchmarkGatewayH2 is a request over HTTP/2 to a local instance.
func BenchmarkGatewayH2(b *testing.B) {
	a := newWorker(b, newAuthority(b), "a", nil)
	benchmarkGateway(b, a, a, h2Client(b), same(b, a))
}

// BenchmarkGatewayChunked is a request with a body in chunks, which leaves the fast path.
func BenchmarkGatewayChunked(b *testing.B) {
	a := newWorker(b, newAuthority(b), "a", nil)
	body := strings.Repeat("x", 64<<10)
	benchmarkGateway(b, a, a, client(b), func() *http.Request {
		return a.request(b, "POST", host, "/", struct{ io.Reader }{strings.NewReader(body)})
	})
}
