package proxy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/certs"
	"github.com/verge-edge/verge/internal/proxy/gateway"
	"github.com/verge-edge/verge/internal/proxy/relay"
	"github.com/verge-edge/verge/internal/wire"
)

// gatewayWorker is a worker that is a gateway with TLS.
func gatewayWorker(t testing.TB, change func(*Options)) *worker {
	t.Helper()
	return newWorker(t, newAuthority(t), "a", func(o *Options) {
		o.GatewayTLSAddr, o.CertDir = "127.0.0.1:0", filepath.Join(t.TempDir(), "gateway")
		if change != nil {
			change(o)
		}
	})
}

// publish is a route of app.<service> with one port for http.
func publish(service string, i api.Ingress, endpoints ...wire.Endpoint) wire.Route {
	return wire.Route{V: 1, App: "app", Namespace: "shop", Service: service, Endpoints: endpoints,
		Ports: []api.Port{{Name: "http", Protocol: "http", Ingress: &i}}}
}

// vault has the secrets of a test.
type vault struct {
	mu     sync.Mutex
	values map[string]string
	opened int
}

func (v *vault) Version(namespace, name string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.values[namespace+"."+name]; s != "" {
		return strconv.Itoa(len(s)) + s[max(0, len(s)-60):]
	}
	return ""
}

func (v *vault) Open(namespace, name string) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.opened++
	return []byte(v.values[namespace+"."+name]), nil
}

func (v *vault) set(id, value string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values[id] = value
}

// bundle is a certificate for names with its key, in PEM.
func (a *authority) bundle(t testing.TB, until time.Time, names ...string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, &key.PublicKey, a.key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

// tlsClient asks every host at the gateway's port for TLS.
func (w *worker) tlsClient(t testing.TB, cfg *tls.Config) *http.Client {
	t.Helper()
	tr := &http.Transport{
		TLSClientConfig: cfg, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, w.GatewayTLSAddr())
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

func getURL(t testing.TB, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	must(t, err)
	return fetch(t, c, req)
}

func code(t testing.TB, body string) string {
	t.Helper()
	var p wire.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return p.Code
}

// A client that speaks HTTP/2 within TLS without having negotiated it came over TLS as well.
func TestHTTP2WithinTLSThatWasNotNegotiated(t *testing.T) {
	t.Parallel()
	a := gatewayWorker(t, func(o *Options) { o.SelfSigned = true })
	a.addHTTP(t, "app.web.0", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = fmt.Fprint(w, req.Header.Get("X-Forwarded-Proto"))
	}))
	a.SetRoutes([]wire.Route{publish("web", api.Ingress{Host: host, TLS: api.IngressTLS{Mode: "self-signed"}},
		a.endpoint("app.web.0"))})
	tr := &http.Transport{Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			d := tls.Dialer{Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}} // without NextProtos
			return d.DialContext(ctx, network, a.GatewayTLSAddr())
		}}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	res, body := getURL(t, &http.Client{Transport: tr, Timeout: 20 * time.Second}, "http://"+host+"/")
	if res.ProtoMajor != 2 || body != "https" {
		t.Errorf("%s %s: it came over %q", res.Proto, res.Status, body)
	}
}

func TestGatewayPaths(t *testing.T) {
	t.Parallel()
	a := gatewayWorker(t, nil)
	show := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			_, _ = fmt.Fprint(w, name, " ", req.URL.RequestURI(), " ", req.Header.Get("X-Forwarded-Prefix"))
		})
	}
	for _, name := range []string{"api", "v2", "rest", "wild"} {
		a.addHTTP(t, "app."+name+".0", show(name))
	}
	a.SetRoutes([]wire.Route{
		publish("api", api.Ingress{Host: host, Paths: []string{"/api/", "/old"}, StripPrefix: true},
			a.endpoint("app.api.0")),
		publish("v2", api.Ingress{Host: host, Paths: []string{"/api/v2"}}, a.endpoint("app.v2.0")),
		publish("rest", api.Ingress{Host: host}, a.endpoint("app.rest.0")),
		publish("wild", api.Ingress{Host: "*.shop.example", Paths: []string{"/x"}}, a.endpoint("app.wild.0")),
	})
	c := client(t)
	for _, k := range []struct {
		host, path string
		status     int
		want       string
	}{
		{host, "/", 200, "rest / "},
		{host, "/apis?a=b;c", 200, "rest /apis?a=b;c "},
		{host, "/api", 200, "api / /api"},
		{host, "/api/x%2Fy?q=1", 200, "api /x%2Fy?q=1 /api"},
		{host, "/%61pi/x", 200, "api /x /api"},
		{host, "/old/", 200, "api / /old"},
		{host, "/api/v2/x", 200, "v2 /api/v2/x "},
		{host, "/api/../v2", 400, "odd-path"},
		{host, "/api/%2e%2e/v2", 400, "odd-path"},
		{"any.shop.example", "/x/y", 200, "wild /x/y "},
		{"any.shop.example", "/y", 404, "unknown-path"},
		{"a.any.shop.example", "/x", 404, "unknown-host"},
	} {
		req := a.request(t, "GET", k.host, "/", nil)
		req.URL.Opaque = k.path // as it is
		req.Header.Set("X-Forwarded-Prefix", "/lie")
		res, body := fetch(t, c, req)
		if k.status != 200 {
			body = code(t, body)
		}
		if res.StatusCode != k.status || body != k.want {
			t.Errorf("%s%s: %d %q, want %d %q", k.host, k.path, res.StatusCode, body, k.status, k.want)
		}
	}
}

func TestGatewaySelfSigned(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gateway")
	a := gatewayWorker(t, func(o *Options) { o.CertDir = dir })
	a.addHTTP(t, "app.web.0", says("hello"))
	a.SetRoutes([]wire.Route{publish("web", api.Ingress{Host: host, TLS: api.IngressTLS{Mode: "self-signed"}},
		a.endpoint("app.web.0"))})
	if _, err := os.Stat(dir); err == nil {
		t.Error("an authority was made before anybody asked")
	}
	// Who does not know the authority does not trust it.
	if _, err := tls.Dial("tcp", a.GatewayTLSAddr(), &tls.Config{ServerName: host}); err == nil {
		t.Error("everybody trusts it")
	}
	text, err := os.ReadFile(filepath.Join(dir, certs.AuthorityFile))
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	res, body := getURL(t, a.tlsClient(t, &tls.Config{RootCAs: pool}), "https://"+host+"/")
	if res.StatusCode != 200 || body != "hello" || res.ProtoMajor != 2 {
		t.Errorf("%d %q by %s", res.StatusCode, body, res.Proto)
	}
	// HTTP/1.1 where the client knows nothing else.
	old := a.tlsClient(t, &tls.Config{RootCAs: pool, NextProtos: []string{"http/1.1"}})
	old.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	if res, body := getURL(t, old, "https://"+host+"/"); body != "hello" || res.ProtoMajor != 1 {
		t.Errorf("%q by %s", body, res.Proto)
	}
	// Nobody publishes this one, and nothing is shown.
	_, err = tls.Dial("tcp", a.GatewayTLSAddr(), &tls.Config{ServerName: "other.example", RootCAs: pool})
	if err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("unknown host: %v", err)
	}
	// A successor shows the same authority.
	b := gatewayWorker(t, func(o *Options) { o.CertDir = dir })
	b.addHTTP(t, "app.web.0", says("hello"))
	b.SetRoutes([]wire.Route{publish("web", api.Ingress{Host: host, TLS: api.IngressTLS{Mode: "self-signed"}},
		b.endpoint("app.web.0"))})
	if _, body := getURL(t, b.tlsClient(t, &tls.Config{RootCAs: pool}), "https://"+host+"/"); body != "hello" {
		t.Errorf("successor: %q", body)
	}
	if st, err := os.Stat(filepath.Join(dir, "self-signed.key")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("key: %v, %v", st.Mode(), err)
	}
}

func TestGatewayGivenCertificate(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	secrets := &vault{values: map[string]string{"shop.tls": ca.bundle(t, time.Now().Add(60*24*time.Hour), host)}}
	var changed atomic.Int32
	a := gatewayWorker(t, func(o *Options) { o.Secrets, o.GatewayChanged = secrets, func() { changed.Add(1) } })
	a.addHTTP(t, "app.web.0", says("hello"))
	routes := []wire.Route{publish("web", api.Ingress{Host: host, TLS: api.IngressTLS{Secret: "tls"}},
		a.endpoint("app.web.0"))}
	a.SetRoutes(routes)
	c := a.tlsClient(t, &tls.Config{RootCAs: ca.pool})
	first, body := getURL(t, c, "https://"+host+"/")
	if body != "hello" {
		t.Fatalf("%q", body)
	}
	a.SetRoutes(routes)
	if secrets.opened != 1 {
		t.Errorf("the secret was opened %d times", secrets.opened)
	}
	// Another one counts from the next connection on; those that are open go on.
	secrets.set("shop.tls", ca.bundle(t, time.Now().Add(30*24*time.Hour), host))
	a.SecretsChanged()
	second, _ := getURL(t, a.tlsClient(t, &tls.Config{RootCAs: ca.pool}), "https://"+host+"/")
	again, _ := getURL(t, c, "https://"+host+"/")
	if serial := func(r *http.Response) string { return r.TLS.PeerCertificates[0].SerialNumber.String() }; serial(first) != serial(again) || serial(first) == serial(second) {
		t.Error("the new certificate does not count from the next connection on")
	}
	report := func() certs.Report { return a.Gateway().Certificates[0] }
	if r := report(); r.Problem != "" || r.Source != certs.FromSecret || r.NotAfter.IsZero() {
		t.Errorf("%+v", r)
	}
	// What cannot be used leaves what is there, and is said without a word of the key.
	bad := ca.bundle(t, time.Now().Add(time.Hour), host)
	other := ca.bundle(t, time.Now().Add(time.Hour), host)
	badCert, _, _ := strings.Cut(bad, "-----BEGIN PRIVATE")
	_, otherKey, _ := strings.Cut(other, "-----BEGIN PRIVATE")
	for value, want := range map[string]string{
		"nonsense": "there is no certificate in it",
		badCert + "-----BEGIN PRIVATE" + otherKey: "does not match",
		badCert: "there is no private key in it",
	} {
		secrets.set("shop.tls", value)
		a.SecretsChanged()
		if r := report(); !strings.Contains(r.Problem, want) ||
			strings.Contains(r.Problem, "BEGIN PRIVATE KEY-----\n") {
			t.Errorf("%+v, want %q", r, want)
		}
		if res, _ := getURL(t, a.tlsClient(t, &tls.Config{RootCAs: ca.pool}),
			"https://"+host+"/"); res.StatusCode != 200 {
			t.Errorf("%q: %d", want, res.StatusCode)
		}
	}
	secrets.set("shop.tls", ca.bundle(t, time.Now().Add(60*24*time.Hour), "other.example"))
	a.SecretsChanged()
	if r := report(); !strings.Contains(r.Problem, "is for other.example, not for "+host) {
		t.Errorf("%+v", r)
	}
	secrets.set("shop.tls", "")
	a.SecretsChanged()
	if r := report(); !strings.Contains(r.Problem, "is not here") {
		t.Errorf("%+v", r)
	}
	if changed.Load() == 0 {
		t.Error("nobody was told")
	}
}

// One that has expired is shown: a client that does not mind gets its answer, and
// the others see what is wrong.
func TestGatewayExpiredCertificate(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	secrets := &vault{values: map[string]string{
		"shop.old":  ca.bundle(t, time.Now().Add(-time.Hour), host),
		"shop.soon": ca.bundle(t, time.Now().Add(24*time.Hour), "soon.example"),
	}}
	a := gatewayWorker(t, func(o *Options) { o.Secrets = secrets })
	a.addHTTP(t, "app.web.0", says("hello"))
	a.SetRoutes([]wire.Route{
		publish("web", api.Ingress{Host: host, TLS: api.IngressTLS{Secret: "old"}}, a.endpoint("app.web.0")),
		publish("soon", api.Ingress{Host: "soon.example", TLS: api.IngressTLS{Secret: "soon"}}),
	})
	_, err := tls.Dial("tcp", a.GatewayTLSAddr(), &tls.Config{ServerName: host, RootCAs: ca.pool})
	if err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("a client that looks: %v", err)
	}
	if res, body := getURL(t, a.tlsClient(t, &tls.Config{InsecureSkipVerify: true}),
		"https://"+host+"/"); res.StatusCode != 200 || body != "hello" {
		t.Errorf("a client that does not mind: %d %q", res.StatusCode, body)
	}
	list := a.Gateway().Certificates
	if list[0].Failed || list[1].Failed || !strings.Contains(list[0].Problem, "has expired at") ||
		!strings.Contains(list[1].Problem, "its certificate expires at") {
		t.Errorf("%+v", list)
	}
}

func TestGatewayRedirects(t *testing.T) {
	t.Parallel()
	a := gatewayWorker(t, nil)
	a.addHTTP(t, "app.web.0", says("hello"))
	no := false
	withTLS := api.IngressTLS{Mode: "self-signed"}
	a.SetRoutes([]wire.Route{
		publish("web", api.Ingress{Host: host, TLS: withTLS}, a.endpoint("app.web.0")),
		publish("both", api.Ingress{Host: "both.example", TLS: withTLS, Redirect: &no}, a.endpoint("app.web.0")),
	})
	c := client(t)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	_, tlsPort, err := net.SplitHostPort(a.GatewayTLSAddr())
	must(t, err)
	for in, want := range map[string]string{
		host:           "https://" + host + "/a%2Fb?q=1",
		host + ":80":   "https://" + host + "/a%2Fb?q=1",
		host + ":8480": "https://" + host + ":" + tlsPort + "/a%2Fb?q=1",
	} {
		res, _ := fetch(t, c, a.request(t, "POST", in, "/a%2Fb?q=1", nil))
		if got := res.Header.Get("Location"); res.StatusCode != http.StatusPermanentRedirect || got != want {
			t.Errorf("%s: %d %s, want %s", in, res.StatusCode, got, want)
		}
	}
	if _, body := fetch(t, c, a.request(t, "GET", "both.example", "/", nil)); body != "hello" {
		t.Errorf("redirect: false: %q", body)
	}
	b := newWorker(t, newAuthority(t), "b", nil)
	b.SetRoutes([]wire.Route{publish("web", api.Ingress{Host: host, TLS: withTLS})})
	if res, body := fetch(t, c, b.request(t, "GET", host, "/", nil)); res.StatusCode != 503 ||
		code(t, body) != "no-tls" {
		t.Errorf("a gateway without TLS: %d %q", res.StatusCode, body)
	}
}

// One client floods; another is served as if nothing happened, and the limit goes on
// over new routes.
func TestGatewayLimitsEachClient(t *testing.T) {
	t.Parallel()
	a := gatewayWorker(t, func(o *Options) { o.GatewayAddr = "0.0.0.0:0" })
	a.addHTTP(t, "app.web.0", says("hello"))
	routes := func() []wire.Route {
		return []wire.Route{publish("web", api.Ingress{Host: host, RateLimit: &api.RateLimit{Requests: 1, Burst: 5}},
			a.endpoint("app.web.0"))}
	}
	a.SetRoutes(routes())
	_, port, err := net.SplitHostPort(a.GatewayAddr())
	must(t, err)
	from := func(ip string) *http.Client {
		tr := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr, Timeout: 20 * time.Second}
	}
	ask := func(c *http.Client) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:"+port+"/", nil)
		must(t, err)
		req.Host = host
		res, body := fetch(t, c, req)
		if res.StatusCode == 429 && (code(t, body) != "too-many-requests" || res.Header.Get("Retry-After") == "") {
			t.Errorf("%v %q", res.Header, body)
		}
		return res
	}
	flooder, other := from("127.0.0.2"), from("127.0.0.3")
	refused := 0
	for i := range 60 {
		if ask(flooder).StatusCode == 429 {
			refused++
		}
		if i%20 == 0 {
			a.SetRoutes(routes())
			if res := ask(other); res.StatusCode != 200 {
				t.Errorf("another client: %d", res.StatusCode)
			}
		}
	}
	if refused < 40 || a.Stats().Gateway.Limited != uint64(refused) {
		t.Errorf("of 60 requests of a flood %d were refused, %d counted", refused, a.Stats().Gateway.Limited)
	}
}

func TestGatewayBoundsBodies(t *testing.T) {
	t.Parallel()
	a := gatewayWorker(t, nil)
	a.addHTTP(t, "app.web.0", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n, err := io.Copy(io.Discard, req.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		_, _ = fmt.Fprint(w, n)
	}))
	const most, slowHost = 100 << 10, "slow.example"
	a.SetRoutes([]wire.Route{
		publish("web", api.Ingress{Host: host, MaxBody: most}, a.endpoint("app.web.0")),
		// Of its own: on a loaded machine a body that is sent at once may take that long.
		publish("slow", api.Ingress{Host: slowHost, BodyTimeout: api.Duration(200 * time.Millisecond)},
			a.endpoint("app.web.0")),
	})
	c := client(t)
	for _, k := range []struct {
		size, status int
		chunked      bool
	}{{most, 200, false}, {most, 200, true}, {most + 1, 413, false}, {most + 1, 413, true}, {2 * most, 413, true}} {
		var body io.Reader = bytes.NewReader(make([]byte, k.size))
		if k.chunked {
			body = io.MultiReader(body) // of no known length
		}
		res, text := fetch(t, c, a.request(t, "POST", host, "/", body))
		switch {
		case res.StatusCode != k.status:
			t.Errorf("%+v: %d %q", k, res.StatusCode, text)
		case k.status == 413 && code(t, text) != "body-too-large":
			t.Errorf("%+v: %q", k, text)
		case k.status == 200 && text != strconv.Itoa(k.size):
			t.Errorf("%+v: the service saw %s", k, text)
		}
	}
	for _, more := range []string{"Content-Length: 10\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"} {
		slow, err := net.Dial("tcp", a.GatewayAddr())
		must(t, err)
		must(t, slow.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = io.WriteString(slow, "POST / HTTP/1.1\r\nHost: "+slowHost+"\r\n"+more)
		must(t, err)
		answer, err := io.ReadAll(slow)
		must(t, err)
		if !bytes.HasPrefix(answer, []byte("HTTP/1.1 408 ")) || !bytes.Contains(answer, []byte("slow-body")) {
			t.Errorf("a slow client: %q", answer)
		}
		must(t, slow.Close())
	}
}

func TestGatewayOneClientCannotHaveAllConnections(t *testing.T) {
	t.Parallel()
	a := gatewayWorker(t, func(o *Options) { o.MaxConns = 4 })
	var held []net.Conn
	for range 3 {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}).Dial("tcp", a.GatewayAddr())
		if err == nil {
			held = append(held, c)
		}
	}
	eventually(t, "the third is refused", func() bool { return a.Stats().Gateway.Rejected == 1 })
	a.addHTTP(t, "app.web.0", says("hello"))
	a.SetRoutes([]wire.Route{publish("web", api.Ingress{Host: host}, a.endpoint("app.web.0"))})
	if _, body := fetch(t, client(t), a.request(t, "GET", host, "/", nil)); body != "hello" {
		t.Errorf("another client: %q", body)
	}
	for _, c := range held {
		_ = c.Close()
	}
}

// free is a port of this machine that nobody has now.
func free(t testing.TB, network string) int {
	t.Helper()
	if network == "udp" {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		must(t, err)
		defer func() { must(t, pc.Close()) }()
		return pc.LocalAddr().(*net.UDPAddr).Port
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, ln.Close()) }()
	return ln.Addr().(*net.TCPAddr).Port
}

// portRoute publishes a tcp or udp port of app.web.
func portRoute(protocol string, i api.Ingress, endpoints ...wire.Endpoint) wire.Route {
	return wire.Route{V: 1, App: "app", Service: "web", Endpoints: endpoints,
		Ports: []api.Port{{Name: "p", Protocol: protocol, Ingress: &i}}}
}

func (w *worker) listening(t testing.TB, port int) string {
	t.Helper()
	eventually(t, "the port is listened on", func() bool {
		for _, p := range w.Gateway().Ports {
			if p.Port == port {
				return p.Open
			}
		}
		return false
	})
	return "127.0.0.1:" + strconv.Itoa(port)
}

func TestGatewayPublishesTCP(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	port := free(t, "tcp")
	a := newWorker(t, ca, "a", func(o *Options) { o.GatewayPorts = [2]int{port, port} })
	b := newWorker(t, ca, "b", nil)
	a.addGreeter(t, "app.web.0")
	b.addGreeter(t, "app.web.1")
	route := func(i api.Ingress) []wire.Route {
		return []wire.Route{portRoute("tcp", i, a.endpoint("app.web.0"), b.endpoint("app.web.1"))}
	}
	a.SetRoutes(route(api.Ingress{Port: port}))
	addr := a.listening(t, port)
	if got := visit(t, addr, 4); got["app.web.0"] != 2 || got["app.web.1"] != 2 {
		t.Errorf("%v", got)
	}
	// A connection outlives its port.
	c, _, err := greetFrom(addr)
	must(t, err)
	a.SetRoutes(route(api.Ingress{Port: port, RateLimit: &api.RateLimit{Requests: 1, Burst: 2}}))
	if _, _, err := greetFrom(addr); err != nil {
		t.Error(err)
	}
	if _, _, err := greetFrom(addr); err != nil {
		t.Error(err)
	}
	if _, _, err := greetFrom(addr); err == nil || a.Stats().Gateway.Limited != 1 {
		t.Errorf("beyond the limit: %v, %+v", err, a.Stats().Gateway)
	}
	other := port%65535 + 1
	a.SetRoutes(route(api.Ingress{Port: other}))
	if st := a.Gateway().Ports; len(st) != 1 || !strings.Contains(st[0].Problem, "--gateway-ports") {
		t.Errorf("a port that the operator does not allow: %+v", st)
	}
	eventually(t, "the port is free again", func() bool {
		_, _, err := greetFrom(addr)
		return err != nil
	})
	_, err = io.WriteString(c, "still here")
	must(t, err)
	echo := make([]byte, 10)
	if _, err := io.ReadFull(c, echo); err != nil || string(echo) != "still here" {
		t.Errorf("%q, %v", echo, err)
	}
	must(t, c.Close())
}

// A port that something else has is a problem, and no longer when it is free.
func TestGatewayPortThatIsTaken(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	a.addGreeter(t, "app.web.0")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := ln.Addr().(*net.TCPAddr).Port
	a.SetRoutes([]wire.Route{portRoute("tcp", api.Ingress{Port: port}, a.endpoint("app.web.0"))})
	eventually(t, "it is said", func() bool {
		st := a.Gateway().Ports
		return len(st) == 1 && strings.Contains(st[0].Problem, "is taken") && st[0].Service == "app.web"
	})
	must(t, ln.Close())
	visit(t, a.listening(t, port), 1)
}

// The address of the client is told to an instance of this worker and of another.
func TestGatewayTellsTheClient(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	tell := func(c net.Conn) {
		in := proxyproto.NewConn(c)
		line := make([]byte, 2)
		if _, err := io.ReadFull(in, line); err == nil {
			_, _ = fmt.Fprint(c, in.RemoteAddr().String(), " ", string(line), "\n")
		}
	}
	a.engine.set("app.web.0", startInstance(t, "app.web.0", "", tell).addr, nil)
	b.engine.set("app.web.1", startInstance(t, "app.web.1", "", tell).addr, nil)
	port := free(t, "tcp")
	a.SetRoutes([]wire.Route{portRoute("tcp", api.Ingress{Port: port, ProxyProtocol: true}, a.endpoint("app.web.0"),
		b.endpoint("app.web.1"))})
	addr := a.listening(t, port)
	for range 2 {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.9")}}).Dial("tcp", addr)
		must(t, err)
		_, err = io.WriteString(c, "hi")
		must(t, err)
		answer, err := io.ReadAll(c)
		must(t, err)
		if want := c.LocalAddr().String() + " hi\n"; string(answer) != want {
			t.Errorf("%q, want %q", answer, want)
		}
		must(t, c.Close())
	}
}

// startUDP is an instance that answers datagrams with its id before them.
func (w *worker) startUDP(t testing.TB, id string) *net.UDPConn {
	t.Helper()
	pc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, relay.MaxDatagram)
		for {
			n, from, err := pc.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = pc.WriteToUDPAddrPort(append([]byte(id+" "), buf[:n]...), from)
		}
	}()
	t.Cleanup(func() {
		_ = pc.Close()
		<-done
	})
	w.engine.set(id, pc.LocalAddr().String(), nil)
	return pc
}

func TestGatewayPublishesUDP(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	a.startUDP(t, "app.web.0")
	b.startUDP(t, "app.web.1")
	port := free(t, "udp")
	route := func(i api.Ingress) []wire.Route {
		return []wire.Route{portRoute("udp", i, a.endpoint("app.web.0"), b.endpoint("app.web.1"))}
	}
	a.SetRoutes(route(api.Ingress{Port: port}))
	addr := a.listening(t, port)
	ask := func(c net.Conn, text string) string {
		t.Helper()
		_, err := io.WriteString(c, text)
		must(t, err)
		must(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
		buf := make([]byte, relay.MaxDatagram)
		n, err := c.Read(buf)
		must(t, err)
		return string(buf[:n])
	}
	seen := map[string]bool{}
	for range 2 {
		c, err := net.Dial("udp", addr)
		must(t, err)
		first := ask(c, "one")
		seen[first] = true
		// A session stays with its instance, and the edges of datagrams stay.
		id, _, _ := strings.Cut(first, " ")
		long := strings.Repeat("x", 9000)
		for _, text := range []string{"two", "", long} {
			if got := ask(c, text); got != id+" "+text {
				t.Errorf("%.30q to %.30q", got, text)
			}
		}
		must(t, c.Close())
	}
	if !seen["app.web.0 one"] || !seen["app.web.1 one"] {
		t.Errorf("%v", seen)
	}
	a.SetRoutes(route(api.Ingress{Port: port, ProxyProtocol: true}))
	for range 2 {
		c, err := net.Dial("udp", addr)
		must(t, err)
		_, rest, _ := strings.Cut(ask(c, "hi"), " ")
		head, err := gateway.ProxyHeader(c.LocalAddr(), c.RemoteAddr())
		must(t, err)
		// Which of its addresses the gateway was reached at it does not see.
		if len(rest) != len(head)+2 || !strings.HasSuffix(rest, "hi") || rest[:20] != string(head[:20]) {
			t.Errorf("%q, want %q before it", rest, head)
		}
		must(t, c.Close())
	}
}

// While routes, certificates and limits change, no connection is dropped and no
// request is lost, on HTTP/1.1, HTTP/2 and a tcp port.
func TestGatewayReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	secrets := &vault{values: map[string]string{"shop.tls": ca.bundle(t, time.Now().Add(60*24*time.Hour), host)}}
	a := gatewayWorker(t, func(o *Options) { o.Secrets = secrets })
	a.addHTTP(t, "app.api.0", says("hello"))
	a.addGreeter(t, "app.web.0")
	port := free(t, "tcp")
	routes := func(n int) []wire.Route {
		no := false
		i := api.Ingress{Host: host, TLS: api.IngressTLS{Secret: "tls"}, Redirect: &no,
			RateLimit: &api.RateLimit{Requests: 1e6, Burst: 1e6 - n%2}}
		list := []wire.Route{publish("api", i, a.endpoint("app.api.0")),
			portRoute("tcp", api.Ingress{Port: port}, a.endpoint("app.web.0"))}
		for k := range n % 3 {
			list = append(list, publish("x"+strconv.Itoa(k),
				api.Ingress{Host: "x" + strconv.Itoa(k) + ".example", TLS: api.IngressTLS{Mode: "self-signed"}}))
		}
		return list
	}
	a.SetRoutes(routes(0))
	conn, _, err := greetFrom(a.listening(t, port))
	must(t, err)
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var conns atomic.Int32
	var served atomic.Int64
	count := func(c *http.Client) *http.Client {
		tr := c.Transport.(*http.Transport)
		dial := tr.DialContext
		if dial == nil {
			dial = (&net.Dialer{}).DialContext
		}
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conns.Add(1)
			return dial(ctx, network, addr)
		}
		return c
	}
	for _, k := range []struct {
		c   *http.Client
		url string
	}{{count(client(t)), "http://" + a.GatewayAddr() + "/"},
		{count(a.tlsClient(t, &tls.Config{RootCAs: ca.pool})), "https://" + host + "/"}} {
		wg.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(t.Context(), "POST", k.url, strings.NewReader("x"))
				if err != nil {
					t.Error(err)
					return
				}
				req.Host = host
				res, err := k.c.Do(req)
				if err != nil {
					t.Errorf("%s: %v", k.url, err)
					return
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || string(body) != "hello" {
					t.Errorf("%s: %d %q, %v", k.url, res.StatusCode, body, err)
					return
				}
				served.Add(1)
			}
		})
	}
	for n := range 30 {
		at := served.Load()
		if n%5 == 0 {
			secrets.set("shop.tls", ca.bundle(t, time.Now().Add(60*24*time.Hour), host))
			a.SecretsChanged()
		}
		a.SetRoutes(routes(n))
		eventually(t, "requests go on", func() bool { return served.Load() > at+1 || t.Failed() })
		_, err := io.WriteString(conn, "x")
		must(t, err)
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatalf("the connection to the tcp port: %v", err)
		}
	}
	stop()
	wg.Wait()
	if conns.Load() != 2 {
		t.Errorf("%d connections for two clients: some were dropped", conns.Load())
	}
	must(t, conn.Close())
}
