package fastpath

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/data"
	"github.com/verge-edge/verge/internal/proxy/entries"
	"github.com/verge-edge/verge/internal/proxy/forward"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/wire"
)

// here has one instance at an address.
type here string

func (h here) Target(wire.InstanceID, string) (string, error) { return string(h), nil }
func (h here) Wake(wire.InstanceID)                           {}

// driver serves app.web by an instance at addr.
func driver(t *testing.T, addr string) *Driver {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	spawn := func(f func(context.Context)) bool {
		wg.Go(func() { f(ctx) })
		return true
	}
	log, never := slog.New(slog.DiscardHandler), func() bool { return false }
	s := router.New(router.Options{
		Worker: "a", Cluster: "edge", Log: log, Spawn: spawn, Local: here(addr), LocalDialer: &net.Dialer{},
		HeaderTimeout: time.Minute, Dialer: data.NewDialer("edge", nil, nil, nil, &data.Paths{}),
	})
	s.Set([]wire.Route{{
		V: 1, App: "app", Service: "web", Requests: wire.RequestRules{Needed: true},
		Ports:     []api.Port{{Name: "http", Protocol: "http"}, {Name: "tcp", Protocol: "tcp"}},
		Endpoints: []wire.Endpoint{{Instance: "app.web.0", Cluster: "edge", Worker: "a"}},
	}}, func([]router.PublishedPort) {})
	reports := new(httpmsg.LoadReports)
	front := forward.New(forward.Options{Services: s, Log: log, Reports: reports, HeaderTimeout: time.Minute,
		Draining: never})
	spawn(front.Serve)
	return &Driver{
		Services: s, Front: front, Log: log, Reports: reports, Flooded: new(atomic.Uint64), Spawn: spawn,
		Draining:      never,
		HeaderTimeout: time.Minute,
	}
}

// connect is a client's connection, and the router's end of it.
func connect(t *testing.T) (client net.Conn, served *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, ln.Close()) }()
	client, err = net.Dial("tcp", ln.Addr().String())
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	c, err := ln.Accept()
	must(t, err)
	return client, c.(*net.TCPConn)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Plain requests are answered one after the other; what is more than that is handed over at a
// request boundary, on the same connection, which is released once.
func TestRequestsOfAnEntry(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			b, _ := io.ReadAll(req.Body)
			_, _ = io.WriteString(w, req.Method+" "+req.URL.Path+" "+string(b)+" for "+
				req.Header.Get("X-Forwarded-For"))
		})}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	d := driver(t, ln.Addr().String())
	client, served := connect(t)
	if d.ServeRequests(entries.Key{App: "app", Service: "web", Port: "tcp"}, served, func() {}) {
		t.Fatal("a port that is routed by connection was taken")
	}
	released := make(chan struct{})
	if !d.ServeRequests(entries.Key{App: "app", Service: "web", Port: "http"}, served, func() { close(released) }) {
		t.Fatal("a port that is routed by request was not taken")
	}
	r := bufio.NewReader(client)
	for _, c := range []struct{ request, answer string }{
		{"GET /a HTTP/1.1\r\nHost: h\r\n\r\n", "GET /a  for 127.0.0.1"},
		{"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody", "POST /b body for 127.0.0.1"},
		{"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\npiece\r\n0\r\n\r\n",
			"POST /c piece for 127.0.0.1"},
		{"GET /d HTTP/1.1\r\nHost: h\r\n\r\n", "GET /d  for 127.0.0.1"},
	} {
		_, err := io.WriteString(client, c.request)
		must(t, err)
		res, err := http.ReadResponse(r, nil)
		must(t, err)
		b, err := io.ReadAll(res.Body)
		must(t, err)
		must(t, res.Body.Close())
		if res.StatusCode != http.StatusOK || string(b) != c.answer {
			t.Errorf("%s: %q, want %q", res.Status, b, c.answer)
		}
	}
	if n := d.Services.Find("app.web").Requests.Load(); n != 4 {
		t.Errorf("%d requests are counted", n)
	}
	must(t, client.Close())
	<-released
}
