package resttest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/server"
)

// Authority is a certificate authority for one test.
type Authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  string
}

// NewAuthority makes one.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{key: newKey(t)}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, a.key.Public(), a.key)
	must(t, err)
	a.cert, err = x509.ParseCertificate(der)
	must(t, err)
	a.pem = encode("CERTIFICATE", der)
	return a
}

// Issue makes a certificate for a name, valid for 127.0.0.1 and localhost.
func (a *Authority) Issue(t testing.TB, name string) (cert, key string) {
	t.Helper()
	k := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.cert, k.Public(), a.key)
	must(t, err)
	kd, err := x509.MarshalPKCS8PrivateKey(k)
	must(t, err)
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", kd)
}

// ServerTLS is the configuration of a server of this authority.
func (a *Authority) ServerTLS(t testing.TB) *tls.Config {
	t.Helper()
	cert, key := a.Issue(t, "server")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool}
}

// Context is a context for a client named name at addr (host:port); "" makes
// one without a client certificate.
func (a *Authority) Context(t testing.TB, name, addr string) client.Context {
	t.Helper()
	e := client.Context{Name: "test", Server: "https://" + addr, CA: a.pem}
	if name != "" {
		e.Cert, e.Key = a.Issue(t, name)
	}
	return e
}

// Admin authorizes the certificate named "admin", and the one named
// "operator-NAME" as operator of that cluster.
func Admin(cs tls.ConnectionState) (rest.Principal, error) {
	name := cs.PeerCertificates[0].Subject.CommonName
	if of, ok := strings.CutPrefix(name, "operator-"); ok {
		return rest.Principal{Who: access.Who{Name: name, Clusters: map[string]access.Role{of: access.Operator}}}, nil
	}
	if name != "admin" {
		return rest.Principal{}, errors.New("it is of " + name)
	}
	return rest.Principal{Who: access.Who{Name: "admin", Admin: true}}, nil
}

// Serve starts a server of backend for the duration of a test and returns it
// with an admin's context.
func Serve(t testing.TB, backend rest.Backend, set func(*server.Options)) (*server.Server, *Authority, client.Context) {
	t.Helper()
	a := NewAuthority(t)
	o := server.Options{Addr: "127.0.0.1:0", TLS: a.ServerTLS(t), Backend: backend, Authorize: Admin, Version: "v-test"}
	if set != nil {
		set(&o)
	}
	s, err := server.New(o)
	must(t, err)
	must(t, s.Start())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close server: %v", err)
		}
	})
	return s, a, a.Context(t, "admin", s.Addr().String())
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return k
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
