package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"

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
		cut(c)
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
		cut(c)
	}
}

func benchmarkGateway(b *testing.B, gate, home *worker) {
	home.addHTTP(b, "app.web.0", says("hello"))
	gate.SetRoutes([]wire.Route{hostRoute(host, home.endpoint("app.web.0"))})
	c := client(b)
	req := gate.request(b, "GET", host, "/", nil)
	b.ReportAllocs()
	for b.Loop() {
		res, err := c.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res.Status, err)
		}
		_ = res.Body.Close()
	}
}

// BenchmarkGatewayLocal is a request over kept connections to a local instance;
// client and instance are part of the figures.
func BenchmarkGatewayLocal(b *testing.B) {
	a := newWorker(b, newAuthority(b), "a", nil)
	benchmarkGateway(b, a, a)
}

// BenchmarkGatewayRemote is the same to an instance of another worker.
func BenchmarkGatewayRemote(b *testing.B) {
	ca := newAuthority(b)
	benchmarkGateway(b, newWorker(b, ca, "a", nil), newWorker(b, ca, "b", nil))
}

// BenchmarkGatewayH2 is a request over HTTP/2 to a local instance.
func BenchmarkGatewayH2(b *testing.B) {
	a := newWorker(b, newAuthority(b), "a", nil)
	a.addHTTP(b, "app.web.0", says("hello"))
	a.SetRoutes([]wire.Route{hostRoute(host, a.endpoint("app.web.0"))})
	c := h2Client(b)
	req := a.request(b, "GET", host, "/", nil)
	b.ReportAllocs()
	for b.Loop() {
		res, err := c.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res.Status, err)
		}
		_ = res.Body.Close()
	}
}

// BenchmarkGatewayChunked is a request with a body in chunks, which leaves the fast path.
func BenchmarkGatewayChunked(b *testing.B) {
	a := newWorker(b, newAuthority(b), "a", nil)
	a.addHTTP(b, "app.web.0", says("hello"))
	a.SetRoutes([]wire.Route{hostRoute(host, a.endpoint("app.web.0"))})
	c := client(b)
	body := strings.Repeat("x", 64<<10)
	b.ReportAllocs()
	for b.Loop() {
		req := a.request(b, "POST", host, "/", struct{ io.Reader }{strings.NewReader(body)})
		res, err := c.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res.Status, err)
		}
		_ = res.Body.Close()
	}
}
