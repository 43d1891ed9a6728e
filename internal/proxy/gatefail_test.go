package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/wire"
)

// say opens a connection to a gateway and sends text; over is within TLS.
func say(t *testing.T, addr string, over *tls.Config, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	if over != nil {
		c = tls.Client(c, over)
	}
	_, err = io.WriteString(c, text)
	must(t, err)
	return c
}

// A client that does not get on is cut off: with the handshake, the head, or the second
// head of a connection.
func TestGatewaySlowClients(t *testing.T) {
	t.Parallel()
	a := gatewayWorker(t, func(o *Options) { o.HeaderTimeout = 200 * time.Millisecond })
	a.addHTTP(t, "app.web.0", says("hello"))
	no := false
	a.SetRoutes([]wire.Route{publish("web",
		api.Ingress{Host: host, TLS: api.IngressTLS{Mode: "self-signed"}, Redirect: &no}, a.endpoint("app.web.0"))})
	trusting := &tls.Config{ServerName: host, InsecureSkipVerify: true} //nolint:gosec // made by the gateway itself
	part := "GET / HTTP/1.1\r\nHost: " + host + "\r\nX-Slow: "
	for name, c := range map[string]net.Conn{
		"head":            say(t, a.GatewayAddr(), nil, part),
		"head within TLS": say(t, a.GatewayTLSAddr(), trusting, part),
		"handshake":       say(t, a.GatewayTLSAddr(), nil, "\x16\x03\x01"),
		"second head":     say(t, a.GatewayAddr(), nil, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n"+part),
	} {
		b, err := io.ReadAll(c)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: it is waited for", name)
		}
		if name == "second head" {
			var res *http.Response
			r := bufio.NewReader(bytes.NewReader(b))
			if res, err = http.ReadResponse(r, nil); err != nil || res.StatusCode != 200 {
				t.Fatalf("%s: %q, %v", name, b, err)
			}
			body, err := io.ReadAll(res.Body)
			must(t, err)
			must(t, res.Body.Close())
			if string(body) != "hello" {
				t.Errorf("%s: the first answer is %q", name, body)
			}
			b, _ = io.ReadAll(r)
		}
		if len(b) > 0 && name != "handshake" && !strings.HasPrefix(string(b), "HTTP/1.1 4") {
			t.Errorf("%s: %q", name, b)
		}
	}
	eventually(t, "nothing of them is open", func() bool { return a.Stats().Gateway.Open == 0 })
}

// What cannot be read in one way alone is refused, and no instance sees it.
func TestGatewayHostileHeads(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	var seen atomic.Int64
	a.addHTTP(t, "app.web.0", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	a.SetRoutes([]wire.Route{hostRoute(host, a.endpoint("app.web.0"))})
	large := strings.Repeat("a", 100<<10)
	for name, head := range map[string]string{
		"a header of 100 KiB": "GET / HTTP/1.1\r\nHost: " + host + "\r\nX: " + large + "\r\n\r\n",
		"100 KiB of headers": "GET / HTTP/1.1\r\nHost: " + host + "\r\n" + strings.Repeat("X: a\r\n", 20_000) +
			"\r\n",
		"a target of 100 KiB":     "GET /" + large + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n",
		"no host":                 "GET / HTTP/1.1\r\nX: 1\r\n\r\n",
		"two hosts":               "GET / HTTP/1.1\r\nHost: " + host + "\r\nHost: other.example\r\n\r\n",
		"a host with a space":     "GET / HTTP/1.1\r\nHost: " + host + " x\r\n\r\n",
		"a host with a path":      "GET / HTTP/1.1\r\nHost: " + host + "/x\r\n\r\n",
		"a control character":     "GET / HTTP/1.1\r\nHost: " + host + "\r\nX: a\x00b\r\n\r\n",
		"a bare carriage return":  "GET / HTTP/1.1\r\nHost: " + host + "\r\nX: a\rX-Injected: 1\r\n\r\n",
		"a space before the name": "GET / HTTP/1.1\r\nHost: " + host + "\r\n X-Injected: 1\r\n\r\n",
		"a space after the name":  "GET / HTTP/1.1\r\nHost: " + host + "\r\nContent-Length : 5\r\n\r\nhello",
		"two lengths": "POST / HTTP/1.1\r\nHost: " + host +
			"\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"length and chunks twice": "POST / HTTP/1.1\r\nHost: " + host +
			"\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
	} {
		c, err := net.Dial("tcp", a.GatewayAddr())
		must(t, err)
		must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		_, _ = io.WriteString(c, head) // it may be cut off before all is sent
		b, err := io.ReadAll(c)
		if errors.Is(err, os.ErrDeadlineExceeded) || len(b) > 0 && !strings.HasPrefix(string(b), "HTTP/1.1 4") &&
			!strings.HasPrefix(string(b), "HTTP/1.1 501") {
			t.Errorf("%s: %.80q, %v", name, b, err)
		}
		must(t, c.Close())
	}
	if n := seen.Load(); n != 0 {
		t.Errorf("the instance has seen %d of them", n)
	}
}

// An instance that says another length than it sends makes no answer look whole, and
// none another's; neither does a header of its own break into another.
func TestGatewayUpstreamLies(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	i := startInstance(t, "app.web.0", "", func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			answer := map[string]string{
				"/less": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
				"/more": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngoodHTTP/1.1 200 OK\r\nContent-Length: 6\r\n" +
					"\r\nstolen",
				"/chunk":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
				"/inject": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-A: a\rX-Injected: 1\r\n\r\ngood",
				"/good":   "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood",
			}[req.URL.Path]
			if _, err := io.WriteString(c, answer); err != nil || req.URL.Path == "/less" || req.URL.Path == "/chunk" ||
				req.URL.Path == "/inject" {
				return
			}
		}
	})
	a.engine.set(i.id, i.addr, nil)
	a.SetRoutes([]wire.Route{hostRoute(host, a.endpoint(i.id))})
	c := client(t)
	ask := func(path string) (*http.Response, string, error) {
		res, err := c.Do(a.request(t, "GET", host, path, nil))
		if err != nil {
			return nil, "", err
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		return res, string(b), err
	}
	for _, path := range []string{"/less", "/more", "/chunk", "/inject"} {
		res, body, err := ask(path)
		switch {
		case err == nil && path != "/more" && res.StatusCode != http.StatusBadGateway:
			t.Errorf("%s: a whole answer, %d %q", path, res.StatusCode, body)
		case err == nil && res.Header.Get("X-Injected") != "":
			t.Errorf("%s: %v", path, res.Header)
		}
		for range 3 {
			if res, body, err := ask("/good"); err != nil || body != "good" && res.StatusCode < 500 {
				t.Errorf("after %s: %q, %v", path, body, err)
			}
		}
	}
}

// A WebSocket goes on while its replica drains, and ends when its grace does; what comes
// new is told that there is nobody.
func TestGatewayUpgradedWhileDraining(t *testing.T) {
	t.Parallel()
	a := gatewayWorker(t, nil)
	i := startInstance(t, "app.web.0", "", func(c net.Conn) {
		r := bufio.NewReader(c)
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"\r\n")
		_, _ = io.Copy(c, r)
	})
	a.engine.set(i.id, i.addr, nil)
	no := false
	a.SetRoutes([]wire.Route{publish("web",
		api.Ingress{Host: host, TLS: api.IngressTLS{Mode: "self-signed"}, Redirect: &no}, a.endpoint(i.id))})
	upgrade := "GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	open := map[string]net.Conn{
		"plain": say(t, a.GatewayAddr(), nil, upgrade),
		"TLS": say(t, a.GatewayTLSAddr(), &tls.Config{ServerName: host, InsecureSkipVerify: true},
			upgrade), //nolint:gosec // made by the gateway itself
	}
	from := map[string]*bufio.Reader{}
	for name, c := range open {
		from[name] = bufio.NewReader(c)
		if res, err := http.ReadResponse(from[name], nil); err != nil ||
			res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(name, res, err)
		}
	}
	a.engine.set(i.id, i.addr, local.ErrDraining)
	a.LocalChanged()
	for name, c := range open {
		_, err := io.WriteString(c, "ping\n")
		must(t, err)
		if line, err := from[name].ReadString('\n'); err != nil || line != "ping\n" {
			t.Errorf("%s: %q, %v", name, line, err)
		}
	}
	if res, _ := fetch(t, client(t),
		a.request(t, "GET", host, "/", nil)); res.StatusCode != http.StatusServiceUnavailable ||
		res.Header.Get("Retry-After") == "" {
		t.Errorf("a new request: %d %v", res.StatusCode, res.Header)
	}
	i.kill() // its grace is over
	for name := range open {
		if line, err := from[name].ReadString('\n'); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: reads %q, %v", name, line, err)
		}
	}
	must(t, a.WaitIdle(t.Context(), i.id))
}

// A client that has ended its side after a request gets its answer, and half of a request
// is none to the instance either.
func TestGatewayHalfClosed(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	whole := make(chan string, 9)
	a.addHTTP(t, "app.web.0", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if b, err := io.ReadAll(req.Body); err == nil {
			whole <- string(b)
		}
		_, _ = io.WriteString(w, "answer")
	}))
	a.SetRoutes([]wire.Route{hostRoute(host, a.endpoint("app.web.0"))})
	for text, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: " + host +
			"\r\nConnection: close\r\n\r\n": "answer",
		"POST / HTTP/1.1\r\nHost: " + host +
			"\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nwhole\r\n0\r\n\r\n": "answer",
		"POST / HTTP/1.1\r\nHost: " + host +
			"\r\nContent-Length: 10\r\n\r\nhalf": "",
		"POST / HTTP/1.1\r\nHost: " + host +
			"\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n": "",
	} {
		c := say(t, a.GatewayAddr(), nil, text)
		must(t, c.(*net.TCPConn).CloseWrite())
		b, err := io.ReadAll(c)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.20q: the connection stays", text)
		}
		if ok := strings.HasPrefix(string(b), "HTTP/1.1 200"); ok != (want != "") || ok &&
			!strings.HasSuffix(string(b), want) {
			t.Errorf("%.20q: %q", text, b)
		}
	}
	eventually(t, "nothing is open", func() bool { return a.Stats().Gateway.Open == 0 })
	close(whole)
	for b := range whole {
		if b != "" && b != "whole" {
			t.Errorf("the instance took %q for a whole body", b)
		}
	}
}
