package busserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/busconn"
	"github.com/verge-edge/verge/internal/bus/busserver"
	"github.com/verge-edge/verge/internal/bus/credentials"
)

const patience = 30 * time.Second

// ca is a certificate authority for one test.
type ca struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newCA(t testing.TB) *ca {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &ca{t: t, cert: cert, key: key, pool: pool}
}

func (a *ca) leaf(name string) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// server is deliberately lax: the bus must demand what is missing.
func (a *ca) server(name string) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.leaf(name)}, ClientCAs: a.pool}
}

func (a *ca) client(name, server string) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.leaf(name)}, RootCAs: a.pool, ServerName: server}
}

// commonName is the user that the certificates of these tests name.
func commonName(cs tls.ConnectionState) (string, error) {
	return cs.PeerCertificates[0].Subject.CommonName, nil
}

func quiet(t testing.TB) *slog.Logger {
	if os.Getenv("BUS_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

func startRoot(t testing.TB, a *ca, dir, listen string) *busserver.RootServer {
	t.Helper()
	r, err := busserver.StartRoot(t.Context(), busserver.RootOptions{Dir: dir, Listen: listen, TLS: a.server("root.test"), Peer: commonName, Log: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func startCluster(t testing.TB, a *ca, name, dir string, up *busserver.Upstream) *busserver.ClusterServer {
	t.Helper()
	c, err := busserver.StartCluster(t.Context(), busserver.ClusterOptions{
		Name: name, Dir: dir, Listen: "127.0.0.1:0", TLS: a.server("cluster.test"), Peer: commonName, Upstream: up, Log: quiet(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newKey(t testing.TB) credentials.Key {
	t.Helper()
	k, err := credentials.LoadOrCreateKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// upstream makes the credentials of a cluster at a root.
func upstream(t *testing.T, a *ca, r *busserver.RootServer, name string) *busserver.Upstream {
	t.Helper()
	key := newKey(t)
	token, err := r.AddCluster(name, key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return &busserver.Upstream{Addresses: []string{r.Addr()}, TLS: a.client(name, "root.test"), JWT: always(token), Key: key}
}

func dialWith(t *testing.T, a *ca, c *busserver.ClusterServer, name, token string, key credentials.Key) bus.Conn {
	t.Helper()
	return dialAt(t, a, c.Addr(), name, token, key)
}

func dialAt(t *testing.T, a *ca, addr, name, token string, key credentials.Key) bus.Conn {
	t.Helper()
	config := a.client(name, "cluster.test")
	conn, err := busconn.Dial(t.Context(), busconn.DialOptions{
		Name: name, Addresses: []string{addr}, TLS: func() (*tls.Config, error) { return config, nil },
		JWT: always(token), Key: key, Log: quiet(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// joinWorker makes a worker of a cluster and connects it.
func joinWorker(t *testing.T, a *ca, c *busserver.ClusterServer, name string) (bus.Conn, credentials.Key, string) {
	t.Helper()
	key := newKey(t)
	token, err := c.AddWorker(name, key.Public())
	if err != nil {
		t.Fatal(err)
	}
	conn := dialWith(t, a, c, name, token, key)
	waitUp(t, conn, true)
	return conn, key, token
}

func waitUp(t *testing.T, c bus.Conn, want bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		up, changed := c.Connected()
		if up == want {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("connected is not %v within %v", want, patience)
		}
	}
}

// eventually waits for a condition on another process's state.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, deadline := time.NewTicker(5*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func request(t *testing.T, c bus.Conn, subject, data string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer, err := c.Request(ctx, subject, []byte(data))
	return string(answer), err
}

// answer makes c serve a subject with an echo that says who it is.
func answer(t *testing.T, c bus.Conn, subject, who string) {
	t.Helper()
	_, err := c.Subscribe(subject, func(_ context.Context, m bus.Msg) {
		if err := m.Respond([]byte(who + " got " + string(m.Data))); err != nil {
			t.Errorf("respond: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// always is a token that is never renewed.
func always(token string) func() string { return func() string { return token } }
