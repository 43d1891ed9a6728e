package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/gateway"
	"github.com/verge-edge/verge/internal/wire"
)

func proxyV2(t testing.TB, from, to string) string {
	t.Helper()
	b, err := proxyproto.HeaderProxyFromAddrs(2, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from)),
		net.TCPAddrFromAddrPort(netip.MustParseAddrPort(to))).Format()
	must(t, err)
	return string(b)
}

// behindBalancer is a gateway behind a balancer at 127.0.0.1, or at another address.
func behindBalancer(t testing.TB, from string) *worker {
	t.Helper()
	return gatewayWorker(t, func(o *Options) { o.GatewayProxyFrom = []netip.Prefix{netip.MustParsePrefix(from)} })
}

// saysWho answers with what a service is told of its client.
var saysWho = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
	_, _ = fmt.Fprintf(w, "%s|%s", req.Header.Get("X-Forwarded-For"), req.Header.Get("Forwarded"))
})

// askRaw sends what a balancer would, and returns what comes back.
func askRaw(t testing.TB, addr, head, host string, tlsTo *tls.Config) string {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	must(t, err)
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(t.Context(), func() { _ = c.Close() })()
	_, err = io.WriteString(c, head)
	must(t, err)
	if tlsTo != nil {
		c = tls.Client(c, tlsTo)
	}
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+host+
		"\r\nConnection: close\r\n\r\n") // it may be closed already
	b, _ := io.ReadAll(c)
	return string(b)
}

// TestGatewayBehindABalancer: the client is who the balancer says, and only it is
// believed.
func TestGatewayBehindABalancer(t *testing.T) {
	t.Parallel()
	local := "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
	for name, c := range map[string]struct{ from, head, want string }{
		"v1": {"127.0.0.0/8", "PROXY TCP4 192.0.2.9 198.51.100.1 40000 443\r\n", "192.0.2.9|for=192.0.2.9;"},
		"v1, IPv6": {"127.0.0.0/8", "PROXY TCP6 2001:db8::9 2001:db8::1 40000 443\r\n",
			`2001:db8::9|for="[2001:db8::9]";`},
		"v1, unknown": {"127.0.0.0/8", "PROXY UNKNOWN\r\n", "127.0.0.1|for=127.0.0.1;"},
		"v2":          {"127.0.0.1/32", proxyV2(t, "192.0.2.9:40000", "198.51.100.1:443"), "192.0.2.9|for=192.0.2.9;"},
		"v2, IPv6": {"127.0.0.1/32", proxyV2(t, "[2001:db8::9]:40000", "[2001:db8::1]:443"),
			`2001:db8::9|for="[2001:db8::9]";`},
		"v2, local": {"127.0.0.1/32", local, "127.0.0.1|for=127.0.0.1;"},
		"none":      {"127.0.0.1/32", "", ""},
		"strangers": {"192.0.2.0/24", "", "127.0.0.1|for=127.0.0.1;"},
		"a stranger who pretends to be a balancer": {"192.0.2.0/24", "PROXY TCP4 192.0.2.9 198.51.100.1 40000 443\r\n",
			"HTTP/1.1 400 Bad Request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := behindBalancer(t, c.from)
			a.addHTTP(t, "app.web.0", saysWho)
			a.SetRoutes([]wire.Route{publish("web",
				api.Ingress{Host: "app.test", TLS: api.IngressTLS{Mode: api.TLSSelfSigned}, Redirect: new(bool)},
				a.endpoint("app.web.0"))})
			plain := askRaw(t, a.GatewayAddr(), c.head, "app.test", nil)
			secure := plain
			if !strings.Contains(c.want, "400") {
				secure = askRaw(t, a.GatewayTLSAddr(), c.head, "app.test",
					&tls.Config{InsecureSkipVerify: true,
						ServerName: "app.test"}) //nolint:gosec // made by the gateway itself
			}
			for _, got := range []string{plain, secure} {
				if c.want == "" && got != "" || !strings.Contains(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
			}
			if bad := a.Stats().Gateway.BadProxy; (bad > 0) != (c.want == "") {
				t.Errorf("%d connections are counted as refused", bad)
			}
		})
	}
}

// TestGatewayLimitsBehindABalancer: limits are of each client, not of the balancer.
func TestGatewayLimitsBehindABalancer(t *testing.T) {
	t.Parallel()
	a := behindBalancer(t, "127.0.0.1/32")
	a.addHTTP(t, "app.web.0", saysWho)
	a.SetRoutes([]wire.Route{publish("web", api.Ingress{Host: "app.test", RateLimit: &api.RateLimit{Requests: 1}},
		a.endpoint("app.web.0"))})
	for n := range 20 {
		head := fmt.Sprintf("PROXY TCP4 192.0.2.%d 198.51.100.1 40000 443\r\n", n)
		if got := askRaw(t, a.GatewayAddr(), head, "app.test", nil); !strings.Contains(got, " 200 ") {
			t.Errorf("client %d: %q", n, got)
		}
	}
	if a.Stats().Gateway.Limited != 0 {
		t.Errorf("%d were limited", a.Stats().Gateway.Limited)
	}
	eventually(t, "one client has had enough", func() bool {
		return strings.Contains(askRaw(t, a.GatewayAddr(), "PROXY TCP4 192.0.2.1 198.51.100.1 40000 443\r\n",
			"app.test", nil), " 429 ")
	})
}

// TestGatewayPortBehindABalancer: a tcp port, whose service is told the client that the
// balancer told.
func TestGatewayPortBehindABalancer(t *testing.T) {
	t.Parallel()
	a := behindBalancer(t, "127.0.0.1/32")
	i := startInstance(t, "app.web.0", "", func(c net.Conn) {
		line, _ := bufio.NewReader(c).ReadString('.')
		_, _ = io.WriteString(c, line)
	})
	a.engine.set(i.id, i.addr, nil)
	port := free(t, "tcp")
	a.SetRoutes([]wire.Route{portRoute("tcp", api.Ingress{Port: port, ProxyProtocol: true}, a.endpoint("app.web.0"))})
	addr := a.listening(t, port)
	for name, head := range map[string]string{
		"v1": "PROXY TCP6 2001:db8::9 2001:db8::1 40000 5432\r\n",
		"v2": proxyV2(t, "[2001:db8::9]:40000", "[2001:db8::1]:5432"),
	} {
		c, err := net.Dial("tcp", addr)
		must(t, err)
		_, err = io.WriteString(c, head+"hello.")
		must(t, err)
		got, err := io.ReadAll(c)
		must(t, err)
		must(t, c.Close())
		if want := proxyV2(t, "[2001:db8::9]:40000", "[2001:db8::1]:5432") + "hello."; string(got) != want {
			t.Errorf("%s: the service was told %q, want %q", name, got, want)
		}
	}
	if got := askRaw(t, addr, "", "app.test", nil); got != "" || a.Stats().Gateway.BadProxy != 1 {
		t.Errorf("without a header: %q, %d counted", got, a.Stats().Gateway.BadProxy)
	}
}

// TestGatewayDoesNotWaitForBalancers: headers that do not come hold up nobody, nor the
// end.
func TestGatewayDoesNotWaitForBalancers(t *testing.T) {
	t.Parallel()
	a := behindBalancer(t, "127.0.0.1/32")
	a.addHTTP(t, "app.web.0", saysWho)
	a.SetRoutes([]wire.Route{publish("web", api.Ingress{Host: "app.test"}, a.endpoint("app.web.0"))})
	for _, part := range []string{"", "P", "PROXY TCP4", gateway.ProxySignature,
		gateway.ProxySignature + "\x21\x11\x0f\xff"} {
		c, err := net.Dial("tcp", a.GatewayAddr())
		must(t, err)
		defer func() { _ = c.Close() }()
		_, err = io.WriteString(c, part)
		must(t, err)
	}
	eventually(t, "all are there", func() bool { return a.Stats().Gateway.Open == 5 })
	if got := askRaw(t, a.GatewayAddr(), "PROXY TCP4 192.0.2.9 198.51.100.1 40000 443\r\n", "app.test",
		nil); !strings.Contains(got, "192.0.2.9") {
		t.Errorf("behind five that say nothing: %q", got)
	}
	a.Close() // and waits for all goroutines
	if n := a.Stats().Gateway.Open; n != 0 {
		t.Errorf("%d connections are open", n)
	}
}
