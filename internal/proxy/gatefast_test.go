package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// A connection with TLS that begins on the fast path and is handed over at a request
// stays one with TLS: the instance is told so, and nobody is sent to where he is.
func TestGatewayHandsOverTLS(t *testing.T) {
	t.Parallel()
	a := gatewayWorker(t, nil)
	a.addHTTP(t, "app.web.0", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Upgrade") != "" {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_, _ = io.Copy(c, c)
			_ = c.Close()
			return
		}
		b, _ := io.ReadAll(req.Body)
		_, _ = fmt.Fprintf(w, "%s %s %s %s %s", req.Header.Get("X-Forwarded-Proto"), req.Header.Get("X-Forwarded-For"),
			req.Header.Get("X-Forwarded-Prefix"), req.RequestURI, b)
	}))
	a.SetRoutes([]wire.Route{publish("web",
		api.Ingress{Host: host, Paths: []string{"/api", "/"}, StripPrefix: true,
			TLS: api.IngressTLS{Mode: "self-signed"}}, a.endpoint("app.web.0"))})
	raw, err := tls.Dial("tcp", a.GatewayTLSAddr(),
		&tls.Config{ServerName: host, InsecureSkipVerify: true,
			NextProtos: []string{"http/1.1"}}) //nolint:gosec // whose it is, is another test's
	must(t, err)
	defer func() { _ = raw.Close() }()
	must(t, raw.SetDeadline(time.Now().Add(20*time.Second)))
	r := bufio.NewReader(raw)
	ask := func(text, want string) {
		t.Helper()
		_, err := io.WriteString(raw, text)
		must(t, err)
		res, err := http.ReadResponse(r, nil)
		must(t, err)
		got, err := io.ReadAll(res.Body)
		must(t, err)
		if res.StatusCode != 200 || string(got) != want {
			t.Errorf("%.20s: %d %q, want %q", text, res.StatusCode, got, want)
		}
	}
	const of = " HTTP/1.1\r\nHost: " + host + "\r\nX-Forwarded-Proto: http\r\nX-Forwarded-For: 9.9.9.9\r\n"
	ask("GET /x?a=/api"+of+"\r\n", "https 127.0.0.1  /x?a=/api ")
	ask("GET /api/x?q=%20"+of+"\r\n", "https 127.0.0.1 /api /x?q=%20 ")
	ask("GET /%61pi"+of+"\r\n", "https 127.0.0.1 /api / ")
	ask("POST /api/y"+of+"Content-Length: 3\r\n\r\nabc", "https 127.0.0.1 /api /y abc")
	ask("POST /api/z"+of+"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "https 127.0.0.1 /api /z abc")
	ask("GET /x"+of+"\r\n", "https 127.0.0.1  /x ")
	_, err = io.WriteString(raw, "GET /x"+of+"Connection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	must(t, err)
	res, err := http.ReadResponse(r, nil)
	must(t, err)
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(res.Status)
	}
	_, err = io.WriteString(raw, "hello\n")
	must(t, err)
	if line, err := r.ReadString('\n'); line != "hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// Who speaks without TLS where there is TLS is told.
func TestGatewayWithoutTLSAtItsPort(t *testing.T) {
	t.Parallel()
	a := gatewayWorker(t, nil)
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "what is this?\n"} {
		c, err := net.Dial("tcp", a.GatewayTLSAddr())
		must(t, err)
		must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = io.WriteString(c, text)
		must(t, err)
		got, _ := io.ReadAll(c)
		if strings.HasPrefix(text, "GET") != strings.HasPrefix(string(got), "HTTP/1.0 400 ") {
			t.Errorf("%q: %q", text, got)
		}
		must(t, c.Close())
	}
	eventually(t, "its connections are over", func() bool { return a.Stats().Gateway.Open == 0 })
}

// The gateway counts what passes by the fast path as it counts all else.
func TestGatewayCounts(t *testing.T) {
	t.Parallel()
	a := gatewayWorker(t, nil)
	a.addHTTP(t, "app.web.0", says(strings.Repeat("x", 1000)))
	a.SetRoutes([]wire.Route{hostRoute(host, a.endpoint("app.web.0")),
		publish("empty", api.Ingress{Host: "empty.example"})})
	c := client(t)
	fetch(t, c, a.request(t, "GET", host, "/", nil))
	if res, body := fetch(t, c, a.request(t, "GET", "empty.example", "/", nil)); res.StatusCode != 503 ||
		code(t, body) != "no-endpoint" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, _ := fetch(t, c, a.request(t, "GET", "none.example", "/", nil)); res.StatusCode != 404 {
		t.Error(res.Status)
	}
	eventually(t, "all is counted", func() bool {
		g := a.Stats().Gateway
		return g.Requests == 3 && g.NoEndpoint == 1 && g.UnknownHost == 1 && g.Open == 1 && g.Traffic.Sent > 1000 &&
			g.Traffic.Received > 100
	})
}
