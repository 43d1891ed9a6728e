package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	// The ACME server by which clients of Let's Encrypt are tested.
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/certs"
	"github.com/verge-edge/verge/internal/wire"
)

// acmeServer is one that finds all hosts at 127.0.0.1.
type acmeServer struct {
	*httptest.Server
	handler atomic.Pointer[http.Handler]
	orders  atomic.Int32
	store   *db.MemoryStore
	ca      *ca.CAImpl
	roots   *x509.CertPool // of its certificates
}

func newACMEServer(t *testing.T) *acmeServer {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	a := &acmeServer{store: db.NewMemoryStore(), roots: x509.NewCertPool()}
	a.ca = ca.New(log.New(io.Discard, "", 0), a.store, "", "ecdsa", 0, 1,
		map[string]ca.Profile{"default": {Description: "the only one"}})
	a.roots.AddCert(a.ca.GetRootCert(0).Cert)
	a.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h := a.handler.Load()
		if h == nil {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		if strings.Contains(req.URL.Path, "order-plz") {
			a.orders.Add(1)
		}
		(*h).ServeHTTP(w, req)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *acmeServer) authority() certs.Authority {
	pool := x509.NewCertPool()
	pool.AddCert(a.Certificate())
	return certs.Authority{Directory: a.URL + wfe.DirectoryPath, Email: "ops@example.org", Roots: pool}
}

// begin has challenges sent to the ports of a gateway.
func (a *acmeServer) begin(t *testing.T, w *worker) {
	t.Helper()
	quiet := log.New(io.Discard, "", 0)
	port := func(addr string) int {
		_, p, _ := net.SplitHostPort(addr)
		n, _ := strconv.Atoi(p)
		return n
	}
	validation := va.New(quiet, port(w.GatewayAddr()), port(w.GatewayTLSAddr()), false, nameServer(t), a.store)
	front := wfe.New(quiet, a.store, validation, a.ca, []string{"acme.example"}, false, false, 0, 0)
	h := front.Handler()
	a.handler.Store(&h)
}

// nameServer says that every name is this machine.
func nameServer(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // Pebble asks over TCP
	must(t, err)
	srv := &dns.Server{Listener: ln, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			m.Answer = append(m.Answer,
				&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET},
					A: net.IPv4(127, 0, 0, 1)})
		}
		_ = w.WriteMsg(m)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.ActivateAndServe()
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	return ln.Addr().String()
}

// A gateway gets certificates by ACME, over HTTP or within TLS, shows them, keeps them
// for its successor, and asks nobody for what no host needs.
func TestGatewayACME(t *testing.T) {
	server := newACMEServer(t)
	dir := filepath.Join(t.TempDir(), "gateway")
	start := func(name string, change func(*Options)) *worker {
		return newWorker(t, newAuthority(t), name, func(o *Options) {
			o.GatewayTLSAddr, o.CertDir, o.ACME = "127.0.0.1:0", dir, server.authority()
			change(o)
		})
	}
	publishAll := func(w *worker, hosts ...string) {
		w.addHTTP(t, "app.web.0", says("hello"))
		var routes []wire.Route
		for i, h := range hosts {
			routes = append(routes, publish("web"+strconv.Itoa(i),
				api.Ingress{Host: h, TLS: api.IngressTLS{Mode: "acme"}}, w.endpoint("app.web.0")))
		}
		w.SetRoutes(routes)
	}
	serves := func(w *worker, h string) {
		t.Helper()
		eventually(t, "there is a certificate for "+h, func() bool {
			for _, r := range w.Gateway().Certificates {
				if r.Host == h {
					return !r.NotAfter.IsZero() && r.Problem == ""
				}
			}
			return false
		})
		if res, body := getURL(t, w.tlsClient(t, &tls.Config{RootCAs: server.roots}),
			"https://"+h+"/"); body != "hello" || res.ProtoMajor != 2 {
			t.Errorf("%s: %d %q", h, res.StatusCode, body)
		}
	}

	a := start("a", func(*Options) {})
	if _, err := os.Stat(dir); err == nil {
		t.Error("an account was made that nobody needs")
	}
	server.begin(t, a)
	publishAll(a, host, "second.example")
	serves(a, host)
	serves(a, "second.example")
	// A host that is not published any more is not shown any more.
	publishAll(a, host)
	if _, err := tls.Dial("tcp", a.GatewayTLSAddr(),
		&tls.Config{ServerName: "second.example", RootCAs: server.roots}); err == nil {
		t.Error("the certificate of a host that is gone is shown")
	}
	a.Close()
	must(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	}))

	// A successor has it at once; without a port for HTTP there is the other challenge.
	before := server.orders.Load()
	b := start("b", func(o *Options) { o.GatewayAddr = "" })
	server.begin(t, b)
	publishAll(b, host, "third.example")
	serves(b, "third.example")
	if n := server.orders.Load() - before; n != 1 {
		t.Errorf("%d orders for one new host", n)
	}
	if len(b.Gateway().Certificates) != 2 || b.Gateway().Certificates[0].Problem != "" {
		t.Errorf("%+v", b.Gateway().Certificates)
	}
}

// What the authority does not give is a problem that says why, and is no host of
// another's.
func TestGatewayACMEFails(t *testing.T) {
	server := newACMEServer(t)
	h := http.NotFoundHandler()
	server.handler.Store(&h)
	a := gatewayWorker(t, func(o *Options) { o.ACME = server.authority() })
	a.SetRoutes([]wire.Route{publish("web", api.Ingress{Host: host, TLS: api.IngressTLS{Mode: "acme"}})})
	eventually(t, "it is said", func() bool {
		c := a.Gateway().Certificates[0]
		return c.Failed && strings.Contains(c.Problem, "no certificate by ACME: ")
	})
	if _, err := tls.DialWithDialer(&net.Dialer{Timeout: 20 * time.Second}, "tcp", a.GatewayTLSAddr(),
		&tls.Config{ServerName: host, InsecureSkipVerify: true}); err == nil ||
		!strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("%v", err)
	}
	b := gatewayWorker(t, nil)
	b.SetRoutes([]wire.Route{publish("web", api.Ingress{Host: host, TLS: api.IngressTLS{Mode: "acme"}})})
	if p := b.Gateway().Certificates[0].Problem; !strings.Contains(p, "--acme-agree") {
		t.Errorf("without a server: %q", p)
	}
}
