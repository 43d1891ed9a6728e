package identity

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/pki"
)

// join gives the identity directory dir a certificate for subject.
func join(t *testing.T, dir string, root *pki.Authority, cluster *pki.ClusterAuthority, subject pki.Subject) {
	t.Helper()
	public, err := pki.EnsureKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := cluster.Issue(pki.LeafRequest{PublicKey: public, Subject: subject}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.SaveIdentity(dir, chain, root.PEM()); err != nil {
		t.Fatal(err)
	}
}

func newAuthorities(t *testing.T) (*pki.Authority, *pki.ClusterAuthority) {
	t.Helper()
	root, err := pki.OpenAuthority(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	public, err := pki.EnsureClusterKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := root.SignCluster(public, "edge", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.SaveCluster(dir, chain, root.PEM()); err != nil {
		t.Fatal(err)
	}
	cluster, err := pki.OpenClusterAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	return root, cluster
}

// greet lets client connect to server as a worker's router does, and returns
// what either side says.
func greet(t *testing.T, client, server *Identity, name string) error {
	t.Helper()
	sc, err := server.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	sc.VerifyConnection = PeerAllowed(nil)
	cc, err := client.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	cc = cc.Clone()
	cc.ServerName = name
	cc.VerifyConnection = PeerAllowed(nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = tls.Server(c, sc).Handshake()
			_ = c.Close()
		}
		served <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	err = tls.Client(c, cc).Handshake()
	_ = c.Close()
	return errors.Join(err, <-served)
}

func TestRoutersKnowEachOther(t *testing.T) {
	t.Parallel()
	root, cluster := newAuthorities(t)
	id := func(s pki.Subject) *Identity {
		i := &Identity{dir: filepath.Join(t.TempDir(), "identity"), log: slog.New(slog.DiscardHandler)}
		join(t, i.dir, root, cluster, s)
		return i
	}
	w1 := id(pki.Subject{Role: pki.RoleWorker, Cluster: "edge", Name: "w1"})
	w2 := id(pki.Subject{Role: pki.RoleWorker, Cluster: "edge", Name: "w2"})
	admin := id(pki.Subject{Role: pki.RoleCluster, Cluster: "edge"})
	if err := greet(t, w1, w2, pki.WorkerName("edge", "w2")); err != nil {
		t.Errorf("two workers: %v", err)
	}
	if err := greet(t, w1, w2, pki.WorkerName("edge", "w3")); err == nil {
		t.Error("w2 passed for w3")
	}
	if err := greet(t, admin, w1, pki.WorkerName("edge", "w1")); err == nil {
		t.Error("one that is no worker was let in")
	}
}

func TestIdentityIsReadAgain(t *testing.T) {
	t.Parallel()
	root, cluster := newAuthorities(t)
	i := &Identity{dir: filepath.Join(t.TempDir(), "identity"), log: slog.New(slog.DiscardHandler)}
	if _, err := i.ServerTLS(); err == nil {
		t.Fatal("an identity without files")
	}
	worker := pki.Subject{Role: pki.RoleWorker, Cluster: "edge", Name: "w1"}
	serial := func() string {
		t.Helper()
		if _, err := i.ServerTLS(); err != nil {
			t.Fatal(err)
		}
		return i.current.Leaf().SerialNumber.String()
	}
	join(t, i.dir, root, cluster, worker)
	first := serial()
	if again := serial(); again != first {
		t.Error("changed by itself")
	}
	// Times of files are as coarse as the kernel's clock tick: it may have the same one.
	join(t, i.dir, root, cluster, worker)
	second := serial()
	if second == first {
		t.Fatal("a renewed certificate is not picked up")
	}

	// What cannot be read for a moment is read later, although nothing has changed then.
	changed := func() {
		t.Helper()
		then := time.Now().Add(-time.Hour).Truncate(time.Hour)
		if err := os.Chtimes(i.dir, then, then); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(i.dir, "identity.pem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	changed()
	if serial() != second {
		t.Fatal("it was read")
	}
	join(t, i.dir, root, cluster, worker)
	changed()
	if serial() == second {
		t.Error("a certificate that could not be read once is not picked up")
	}
}
