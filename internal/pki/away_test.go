package pki

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

// A worker is called by its own name in its cluster alone; whoever else meets it sees
// another one, in its certificate and in its lease.
func TestOthersSeeAnotherName(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	edge, fog := newCluster(t, root, "edge"), newCluster(t, root, "fog")
	dir := t.TempDir()
	w1 := newNode(t, dir, edge, Subject{RoleWorker, "edge", "w1"})
	w2 := newNode(t, t.TempDir(), edge, Subject{RoleWorker, "edge", "w2"})
	far := newNode(t, t.TempDir(), fog, Subject{RoleWorker, "fog", "w3"})
	if s, ok := w1.Away(); ok || s.Name != "w1" {
		t.Fatalf("before it has another name: %v, %v", s, ok)
	}
	away := must(edge.Issue(LeafRequest{Subject: Subject{RoleWorker, "edge", "w-ab12"}, PublicKey: must(EnsureKey(dir))(t)}, now))(t)
	if err := SaveAway(dir, away, edge.PEM()); err != nil {
		t.Fatal(err)
	}
	if err := w1.Reload(); err != nil {
		t.Fatal(err)
	}
	if s, ok := w1.Away(); !ok || s.Name != "w-ab12" || w1.Subject().Name != "w1" {
		t.Fatalf("away it is %v, %v, and %v", s, ok, w1.Subject())
	}
	seen := func(server, client *Identity, name string) (srv, cli Subject) {
		t.Helper()
		show := client.ServerTLS(requireClient)
		if client.Subject().Cluster != server.Subject().Cluster {
			show = client.AwayTLS(requireClient)
		}
		show = show.Clone()
		show.ServerName = name
		s, c, err1, err2 := handshake(t, server.ServerTLS(requireClient), show)
		if err1 != nil || err2 != nil {
			t.Fatal(name, err1, err2)
		}
		return must(SubjectOf(c.PeerCertificates[0]))(t), must(SubjectOf(s.PeerCertificates[0]))(t)
	}
	if s, _ := seen(w1, w2, WorkerName("edge", "w1")); s.Name != "w1" {
		t.Errorf("in its cluster it is %v", s)
	}
	if s, c := seen(w1, far, WorkerName("edge", "w-ab12")); s.Name != "w-ab12" || c.Name != "w3" {
		t.Errorf("who dials from elsewhere sees %v, and is %v", s, c)
	}
	if _, c := seen(far, w1, WorkerName("fog", "w3")); c.Name != "w-ab12" {
		t.Errorf("dialled from elsewhere it sees %v", c)
	}
	// Its lease is under that name too, and goes with that certificate alone.
	l := wire.Lease{V: 1, Cluster: "edge", Worker: "w-ab12", Prefix: netip.MustParsePrefix("fd00:1:2::/48"), Number: 4}
	signed := must(edge.SignLease(l))(t)
	if got, err := far.VerifyLease(parseCerts(t, away), signed); err != nil || got.Number != 4 {
		t.Errorf("the lease: %+v, %v", got, err)
	}
	if _, err := far.VerifyLease(append(parseCerts(t, away)[:0:0], w1.Leaf(), parseCerts(t, away)[1]), signed); err == nil {
		t.Error("the lease goes with its own name")
	}
	// One that is damaged, or of an earlier key, is not used.
	for _, text := range []string{"rubbish", must(edge.Issue(LeafRequest{Subject: Subject{RoleWorker, "edge", "w-ab12"}, PublicKey: must(EnsureKey(t.TempDir()))(t)}, now))(t) + edge.PEM()} {
		if err := os.WriteFile(filepath.Join(dir, awayFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := w1.Reload(); err != nil {
			t.Fatal(err)
		}
		if _, ok := w1.Away(); ok {
			t.Errorf("%.20q is used", text)
		}
	}
	if err := SaveAway(dir, "", ""); err != nil {
		t.Fatal(err)
	}
	if err := SaveAway(dir, "", ""); err != nil {
		t.Errorf("removed twice: %v", err)
	}
}
