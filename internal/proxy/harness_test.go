package proxy

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/wire"
)

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	a := &authority{cert: cert, key: key, pool: x509.NewCertPool()}
	a.pool.AddCert(cert)
	return a
}

// identity returns a TLS source for a name ("worker/edge/w1").
func (a *authority) identity(t testing.TB, name, serverName string) func() (*tls.Config, error) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	uri, err := url.Parse("verge://test/" + name)
	must(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{serverName}, URIs: []*url.URL{uri},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	must(t, err)
	// A new Config each time: that is what a source that renews does.
	return func() (*tls.Config, error) {
		return &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
			RootCAs:      a.pool,
		}, nil
	}
}

func peerName(cluster, worker string) string { return worker + "." + cluster + ".verge.test" }

func workersOnly(s tls.ConnectionState) error {
	if len(s.PeerCertificates) > 0 {
		for _, u := range s.PeerCertificates[0].URIs {
			if strings.HasPrefix(u.String(), "verge://") && strings.Contains(u.String(), "/worker/") {
				return nil
			}
		}
	}
	return errors.New("not a worker's certificate")
}

// fakeEngine is the Local of a test worker.
type fakeEngine struct {
	mu     sync.Mutex
	target map[wire.InstanceID]string
	err    map[wire.InstanceID]error
	wake   atomic.Pointer[func(wire.InstanceID)]
}

func (f *fakeEngine) Target(id wire.InstanceID, _ string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.err[id]; err != nil {
		return "", err
	}
	if a, ok := f.target[id]; ok {
		return a, nil
	}
	return "", local.ErrNoInstance
}

func (f *fakeEngine) Wake(id wire.InstanceID) {
	if wake := f.wake.Load(); wake != nil {
		(*wake)(id)
	}
}

func (f *fakeEngine) set(id wire.InstanceID, addr string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target[id] = addr
	f.err[id] = err
}

// worker is a Router and its engine.
type worker struct {
	*Router
	name   string
	engine *fakeEngine
}

// hosts gives each router its own loopback address where the system has them
// (all of 127/8 on Linux), so that parallel tests don't share a port range.
var hosts atomic.Uint32

func entryHost(t testing.TB) string {
	t.Helper()
	pid := os.Getpid()
	h := fmt.Sprintf("127.%d.%d.%d", 1+pid>>8%250, 1+pid%250, 1+hosts.Add(1)%250)
	ln, err := net.Listen("tcp", h+":0")
	if err != nil {
		return "127.0.0.1"
	}
	must(t, ln.Close())
	return h
}

// newWorker starts a worker of cluster "edge"; change may adjust its options.
func newWorker(t testing.TB, ca *authority, name string, change func(*Options)) *worker {
	t.Helper()
	w := &worker{name: name, engine: &fakeEngine{target: map[string]string{}, err: map[string]error{}}}
	opts := Options{
		Worker: name, Cluster: "edge", Local: w.engine,
		StateFile: filepath.Join(t.TempDir(), "ports.json"),
		EntryHost: entryHost(t),
		DataAddr:  "127.0.0.1:0", GatewayAddr: "127.0.0.1:0",
		TLS:      ca.identity(t, "worker/edge/"+name, peerName("edge", name)),
		PeerName: peerName, PeerAllowed: workersOnly,
	}
	if change != nil {
		change(&opts)
	}
	var err error
	w.Router, err = New(opts)
	must(t, err)
	must(t, w.Start(t.Context()))
	for _, err := range w.Open(t.Context()) {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// patient has it wait longer for connections to the others, as if they usually took
// long: on a busy machine it would go on elsewhere.
func (w *worker) patient() {
	for _, e := range w.services.Find("app.web").All() {
		e.Opened(router.MaxHedgeAfter)
	}
}

// endpoint of an instance on this worker, as other workers see it.
func (w *worker) endpoint(id wire.InstanceID) wire.Endpoint {
	return wire.Endpoint{Instance: id, Cluster: "edge", Worker: w.name, Address: w.Router.DataAddr()}
}

// instance is a TCP server that greets with its name and echoes; with http it
// answers HTTP requests instead.
type instance struct {
	id   wire.InstanceID
	addr string
	ln   net.Listener
	wg   sync.WaitGroup
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// startInstance runs handle for each connection at addr ("" any free port).
func startInstance(t testing.TB, id wire.InstanceID, addr string, handle func(net.Conn)) *instance {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", addr)
	must(t, err)
	i := &instance{id: id, addr: ln.Addr().String(), ln: ln, open: map[net.Conn]struct{}{}}
	i.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			i.mu.Lock()
			i.open[c] = struct{}{}
			i.mu.Unlock()
			i.wg.Go(func() {
				handle(c)
				_ = c.Close()
				i.mu.Lock()
				delete(i.open, c)
				i.mu.Unlock()
			})
		}
	})
	t.Cleanup(i.kill)
	return i
}

// kill ends the instance as a killed process would: all its sockets go.
func (i *instance) kill() {
	_ = i.ln.Close()
	i.mu.Lock()
	for c := range i.open {
		netconn.Cut(c)
	}
	i.mu.Unlock()
	i.wg.Wait()
}

// greeter says its id on a line and then echoes.
func greeter(id string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := io.WriteString(c, id+"\n"); err == nil {
			_, _ = io.Copy(c, c)
		}
	}
}

// addGreeter starts a greeter as an instance of the worker.
func (w *worker) addGreeter(t testing.TB, id wire.InstanceID) *instance {
	t.Helper()
	i := startInstance(t, id, "", greeter(id))
	w.engine.set(id, i.addr, nil)
	return i
}

// addHTTP starts an HTTP server as an instance of the worker.
func (w *worker) addHTTP(t testing.TB, id wire.InstanceID, h http.Handler) *http.Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln)
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	w.engine.set(id, ln.Addr().String(), nil)
	return srv
}

var tcpPort = []api.Port{{Name: "tcp", Protocol: "tcp"}}

func webRoute(endpoints ...wire.Endpoint) wire.Route {
	return wire.Route{V: 1, App: "app", Service: "web", Ports: tcpPort, Endpoints: endpoints}
}

func hostRoute(host string, endpoints ...wire.Endpoint) wire.Route {
	return wire.Route{V: 1, App: "app", Service: "web", Endpoints: endpoints,
		Ports: []api.Port{{Name: "http", Protocol: "http", Ingress: &api.Ingress{Host: host}}}}
}

// addr is the entry of a port of app.web.
func (w *worker) addr(t testing.TB, port string) string {
	t.Helper()
	for _, e := range w.Entries() {
		if e.App == "app" && e.Service == "web" && e.Port == port {
			if e.Problem != "" {
				t.Fatalf("entry %s: %s", e.Addr, e.Problem)
			}
			return e.Addr
		}
	}
	t.Fatalf("no entry for app.web/%s in %v", port, w.Entries())
	return ""
}

// greetFrom opens a connection and returns it, and who greeted.
func greetFrom(addr string) (net.Conn, string, error) {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, "", err
	}
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReaderSize(c, 16).ReadString('\n')
	if err != nil {
		_ = c.Close()
		return nil, "", err
	}
	return c, strings.TrimSpace(line), nil
}

// visit counts who greets n new connections.
func visit(t testing.TB, addr string, n int) map[string]int {
	t.Helper()
	got := map[string]int{}
	for k := range n {
		c, id, err := greetFrom(addr)
		if err != nil {
			t.Fatalf("connection %d of %d: %v", k, n, err)
		}
		got[id]++
		must(t, c.Close())
	}
	return got
}

// state of an endpoint of app.web at this worker.
func (w *worker) state(id wire.InstanceID) router.EndpointState {
	for _, s := range w.Stats().Services {
		for _, e := range s.Endpoints {
			if e.Instance == id {
				return e.State
			}
		}
	}
	return ""
}

// eventually waits until ok; sockets have no virtual clock.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
