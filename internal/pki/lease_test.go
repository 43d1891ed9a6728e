package pki

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

func leaseOf(cluster, worker string) wire.Lease {
	return wire.Lease{
		V: wire.Version, Cluster: cluster, Worker: worker, Number: 7, Prefix: netip.MustParsePrefix("fd12:3456:789a::/48"),
		IPv4: netip.MustParsePrefix("10.128.3.0/24"), Pool: netip.MustParsePrefix("10.128.0.0/9"),
	}
}

// chainOf is what a node shows of itself.
func chainOf(t *testing.T, id *Identity) (chain []*x509.Certificate) {
	t.Helper()
	for _, der := range id.current.Load().client.Certificate {
		chain = append(chain, must(x509.ParseCertificate(der))(t))
	}
	return chain
}

// raw signs anything as if it were a lease.
func raw(t *testing.T, c *ClusterAuthority, body []byte) wire.SignedLease {
	t.Helper()
	sum := sha256.Sum256(append([]byte(leasePrefix), body...))
	return wire.SignedLease{Body: body, Sig: must(ecdsa.SignASN1(rand.Reader, c.current.Load().issuer.key, sum[:]))(t)}
}

func TestALeaseCountsForItsWorkerAlone(t *testing.T) {
	root := newRoot(t)
	edge, other := newCluster(t, root, "edge"), newCluster(t, root, "other")
	me := newNode(t, t.TempDir(), other, Subject{Role: RoleWorker, Cluster: "other", Name: "me"})
	worker := func(ca authority, cluster, name string) *Identity {
		return newNode(t, t.TempDir(), ca, Subject{Role: RoleWorker, Cluster: cluster, Name: name})
	}
	w1, w2 := worker(edge, "edge", "w1"), worker(edge, "edge", "w2")
	server := newNode(t, t.TempDir(), edge, Subject{Role: RoleCluster, Cluster: "edge"})
	stranger := worker(newCluster(t, newRoot(t), "edge"), "edge", "w1")
	good := must(edge.SignLease(leaseOf("edge", "w1")))(t)
	forged := must(other.SignLease(leaseOf("other", "w1")))(t)
	forged.Body = good.Body
	changed := wire.SignedLease{Body: []byte(strings.Replace(string(good.Body), `"number":7`, `"number":8`, 1)), Sig: good.Sig}
	for name, tc := range map[string]struct {
		from *Identity
		s    wire.SignedLease
		want string // in the error; "" is none
	}{
		"its own":                {w1, good, ""},
		"another worker's":       {w2, good, "worker \"w1\""},
		"another cluster's key":  {w1, forged, "not signed"},
		"tampered":               {w1, changed, "not signed"},
		"without a signature":    {w1, wire.SignedLease{Body: good.Body}, "not signed"},
		"empty":                  {w1, wire.SignedLease{}, "not signed"},
		"large":                  {w1, wire.SignedLease{Body: make([]byte, maxLease), Sig: good.Sig}, "bytes"},
		"the cluster's own":      {server, good, "no worker"},
		"of another root":        {stranger, good, "certificate"},
		"with a prefix of all":   {w1, must(edge.SignLease(wire.Lease{Cluster: "edge", Worker: "w1", Number: 1, Prefix: netip.MustParsePrefix("::/0")}))(t), "prefix"},
		"with a public prefix":   {w1, must(edge.SignLease(wire.Lease{Cluster: "edge", Worker: "w1", Number: 1, Prefix: netip.MustParsePrefix("2001:db8::/48")}))(t), "prefix"},
		"without a number":       {w1, must(edge.SignLease(wire.Lease{Cluster: "edge", Worker: "w1", Prefix: leaseOf("", "").Prefix}))(t), "number 0"},
		"that is not understood": {w1, raw(t, edge, []byte("x")), "read"},
	} {
		got, err := me.VerifyLease(chainOf(t, tc.from), tc.s)
		switch {
		case tc.want == "" && (err != nil || got != leaseOf("edge", "w1")):
			t.Errorf("%s: %+v, %v", name, got, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want one with %q", name, err, tc.want)
		}
	}
	if _, err := me.VerifyLease(nil, good); err == nil {
		t.Error("a lease without a certificate was accepted")
	}
	if _, err := other.SignLease(leaseOf("edge", "w1")); err == nil {
		t.Error("a cluster signed a lease of another one")
	}
	me.Clock = stopped(now.Add(LeafTTL + day))
	if _, err := me.VerifyLease(chainOf(t, w1), good); err == nil {
		t.Error("a lease was accepted with a certificate that has expired")
	}
	me.Clock = stopped(now)
	me.Revoked = &Revoked{}
	me.Revoked.Set([]string{RevokedBy("edge", KeyHash(w1.Leaf().RawSubjectPublicKeyInfo))})
	if _, err := me.VerifyLease(chainOf(t, w1), good); !errors.Is(err, ErrRevoked) {
		t.Errorf("with a revoked key: %v", err)
	}
}

// A lease is signed once and counts for as long as the cluster has its key, through
// renewals and a rotation of the root's authority.
func TestALeaseOutlivesRenewalAndRotation(t *testing.T) {
	root := newRoot(t)
	dir := t.TempDir()
	pub := must(EnsureClusterKey(dir))(t)
	certify := func(at time.Time) {
		t.Helper()
		if err := SaveCluster(dir, must(root.SignCluster(pub, "edge", at))(t), root.PEM()); err != nil {
			t.Fatal(err)
		}
	}
	certify(now)
	edge := must(OpenClusterAuthority(dir))(t)
	signed := must(edge.SignLease(leaseOf("edge", "w1")))(t)
	nodeDir := t.TempDir()
	w1 := newNode(t, nodeDir, edge, Subject{Role: RoleWorker, Cluster: "edge", Name: "w1"})
	check := func(what string, at time.Time) {
		t.Helper()
		peer := newNode(t, t.TempDir(), root, Subject{Role: RoleRoot})
		peer.Clock = stopped(at)
		if _, err := peer.VerifyLease(chainOf(t, w1), signed); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("fresh", now)
	later := now.Add(3 * 365 * day)
	certify(later)
	if err := edge.Reload(); err != nil {
		t.Fatal(err)
	}
	renew := func(at time.Time) {
		t.Helper()
		chain := must(edge.Issue(LeafRequest{Subject: w1.Subject(), PublicKey: must(EnsureKey(nodeDir))(t)}, at))(t)
		if err := SaveIdentity(nodeDir, chain, edge.PEM()); err != nil {
			t.Fatal(err)
		}
		if err := w1.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	renew(later)
	check("renewed", later)
	if err := root.Rotate(later); err != nil {
		t.Fatal(err)
	}
	certify(later)
	if err := edge.Reload(); err != nil {
		t.Fatal(err)
	}
	check("while the root's authority is rotated, before the worker has followed", later)
	renew(later)
	check("while the root's authority is rotated", later)
}
