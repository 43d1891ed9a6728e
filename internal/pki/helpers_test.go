package pki

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newRoot(t testing.TB) *Authority {
	t.Helper()
	return must(OpenAuthority(t.TempDir(), now))(t)
}

// newCluster joins a cluster to a root and opens its authority.
func newCluster(t testing.TB, root *Authority, name string) *ClusterAuthority {
	t.Helper()
	dir := t.TempDir()
	pub := must(EnsureClusterKey(dir))(t)
	chain := must(root.SignCluster(pub, name, now))(t)
	if err := SaveCluster(dir, chain, root.PEM()); err != nil {
		t.Fatal(err)
	}
	return must(OpenClusterAuthority(dir))(t)
}

// authority is what issues certificates for nodes.
type authority interface {
	Issue(r LeafRequest, now time.Time) (string, error)
	PEM() string
}

// newNode joins a node in dir and loads its identity, whose clock stands at now.
func newNode(t testing.TB, dir string, ca authority, s Subject) *Identity {
	t.Helper()
	pub := must(EnsureKey(dir))(t)
	chain := must(ca.Issue(LeafRequest{Subject: s, PublicKey: pub}, now))(t)
	if err := SaveIdentity(dir, chain, ca.PEM()); err != nil {
		t.Fatal(err)
	}
	id := must(LoadIdentity(dir))(t)
	id.Clock = stopped(now)
	return id
}

// testKey is a key that is in no file.
func testKey(t testing.TB) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, _, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	return key, must(publicDER(key))(t)
}

// parseCerts reads certificates from PEM.
func parseCerts(t testing.TB, text string) []*x509.Certificate {
	t.Helper()
	return must(parsePEM([]byte(text)))(t).certs
}

// verify checks a PEM chain as Go's TLS does.
func verify(t testing.TB, chain string, pool *x509.CertPool, name string, usage x509.ExtKeyUsage, at time.Time) error {
	t.Helper()
	certs := parseCerts(t, chain)
	_, err := certs[0].Verify(x509.VerifyOptions{
		Roots: pool, Intermediates: poolOf(certs[1:]), DNSName: name, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{usage},
	})
	return err
}

// handshake connects a client to a server and returns what each side saw.
func handshake(t testing.TB, server, client *tls.Config) (srv, cli tls.ConnectionState, srvErr, cliErr error) {
	t.Helper()
	a, b := net.Pipe()
	deadline := time.Now().Add(20 * time.Second)
	_, _ = a.SetDeadline(deadline), b.SetDeadline(deadline)
	s, c := tls.Server(a, server), tls.Client(b, client)
	done := make(chan struct{})
	go func() {
		defer close(done)
		srvErr = s.Handshake()
		// In TLS 1.3 a client learns by reading that it was refused.
		if srvErr == nil {
			_, srvErr = s.Write([]byte("x"))
		}
		srv = s.ConnectionState()
		if srvErr != nil {
			_ = a.Close()
		}
	}()
	cliErr = c.Handshake()
	if cliErr == nil {
		_, cliErr = c.Read(make([]byte, 1))
	}
	cli = c.ConnectionState()
	_ = b.Close()
	<-done
	_ = a.Close()
	return srv, cli, srvErr, cliErr
}

// wantDamage asserts that an error names a file and says what to do.
func wantDamage(t *testing.T, what string, err error, path string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: accepted", what)
		return
	}
	if errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: error %v says that there is nothing yet", what, err)
	}
	if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "restore it from a backup") {
		t.Errorf("%s: error %q does not name %s and the remedy", what, err, path)
	}
}

// eachDamage calls check with the file at path damaged in many ways, and
// restores the file at the end.
func eachDamage(t *testing.T, path string, check func(what string)) {
	t.Helper()
	good := must(os.ReadFile(path))(t)
	write := func(b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(nil)
	check("empty")
	// Cut everywhere; all but the last newline.
	for n := 1; n < len(good)-1; n += 7 {
		write(good[:n])
		check("cut off")
	}
	write(good[:len(good)-2])
	check("cut off by one character")
	write(append(append([]byte{}, good...), "rest of another file"...))
	check("with a tail")
	write(make([]byte, maxPEM+1))
	check("too large")
	for i := 60; i < len(good); i += 97 {
		bad := append([]byte{}, good...)
		bad[i] ^= 0x11
		write(bad)
		check("one byte changed")
	}
	write(good)
}

func writeFile(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// stopped is a clock that always says the same.
func stopped(at time.Time) *Clock {
	return newClock("", false, func() time.Time { return at }, func() time.Duration { return 0 })
}
