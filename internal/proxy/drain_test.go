package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

// What is open when a router drains is served: a request over a connection that rests, as
// the last of it, a stream to its end, a connection that is not HTTP to its end.
func TestDrain(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	w := newWorker(t, ca, "a", nil)
	began, end := make(chan struct{}), make(chan struct{})
	w.addHTTP(t, "app.web.0", http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/slow" {
			_, _ = io.WriteString(rw, "begin ")
			_ = http.NewResponseController(rw).Flush()
			close(began)
			<-end
		}
		_, _ = io.WriteString(rw, "end")
	}))
	raw := startInstance(t, "app.raw.0", "", greeter("raw"))
	w.engine.set("app.raw.0", raw.addr, nil)
	w.SetRoutes([]wire.Route{
		hostRoute(host, w.endpoint("app.web.0")),
		{V: 1, App: "app", Service: "raw", Ports: tcpPort, Endpoints: []wire.Endpoint{w.endpoint("app.raw.0")}},
	})
	gate, entry := w.GatewayAddr(), ""
	for _, e := range w.Entries() {
		if e.Service == "raw" {
			entry = e.Addr
		}
	}
	resting := client(t)
	fetch(t, resting, w.request(t, "GET", host, "/", nil))
	type answer struct {
		body string
		err  error
	}
	slow, slowly := make(chan answer, 1), client(t)
	ask := w.request(t, "GET", host, "/slow", nil)
	go func() {
		res, err := slowly.Do(ask)
		if err != nil {
			slow <- answer{err: err}
			return
		}
		b, err := io.ReadAll(res.Body)
		slow <- answer{string(b), errors.Join(err, res.Body.Close())}
	}()
	<-began
	conn, _, err := greetFrom(entry)
	must(t, err)

	last := w.request(t, "POST", host, "/", nil)
	drained := make(chan error, 1)
	go func() { drained <- w.Drain(t.Context()) }()
	eventually(t, "nothing new is accepted", func() bool {
		for _, addr := range []string{gate, entry} {
			if c, err := net.Dial("tcp", addr); err == nil {
				_ = c.Close()
				return false
			}
		}
		return true
	})
	res, body := fetch(t, resting, last)
	if res.StatusCode != 200 || body != "end" || !res.Close {
		t.Errorf("over a connection that rested: %d %q, closes %t", res.StatusCode, body, res.Close)
	}
	if _, err := io.WriteString(conn, "still"); err != nil {
		t.Error(err)
	}
	echo := make([]byte, 5)
	if _, err := io.ReadFull(conn, echo); err != nil || string(echo) != "still" {
		t.Errorf("a connection that is not HTTP: %q, %v", echo, err)
	}
	select {
	case err := <-drained:
		t.Errorf("drained with open connections: %v", err)
	default:
	}
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Drain(short); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	close(end)
	if a := <-slow; a.err != nil || a.body != "begin end" {
		t.Errorf("an answer under way: %q, %v", a.body, a.err)
	}
	slowly.CloseIdleConnections() // its request came before: it may rest for as long as ever
	must(t, conn.Close())
	must(t, <-drained)
}
