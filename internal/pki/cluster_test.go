package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestClusterCertifiesItsOwn(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	c := newCluster(t, root, "edge")
	if c.Cluster() != "edge" || c.Pin() != root.Pin() || c.RootID() != root.ID() || c.PEM() != root.PEM() {
		t.Errorf("cluster %s under %s", c.Cluster(), c.RootID())
	}
	if want := now.Add(ClusterTTL / 2); !c.RenewAt().Equal(want) {
		t.Errorf("renew at %v, want %v", c.RenewAt(), want)
	}
	_, pub := testKey(t)
	for _, tt := range []struct {
		s    Subject
		name string
	}{
		{Subject{RoleCluster, "edge", ""}, ClusterName("edge")},
		{Subject{RoleWorker, "edge", "w1"}, WorkerName("edge", "w1")},
		{Subject{RoleAdmin, "edge", "ann"}, ""},
	} {
		chain := must(c.Issue(LeafRequest{Subject: tt.s, PublicKey: pub}, now))(t)
		certs := parseCerts(t, chain)
		if s, err := SubjectOf(certs[0]); err != nil || s != tt.s || len(certs) != 2 {
			t.Errorf("%v: subject %v, %v in a chain of %d", tt.s, s, err, len(certs))
		}
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			if err := verify(t, chain, root.Pool(), tt.name, usage, now); err != nil {
				t.Errorf("%v: %v", tt.s, err)
			}
		}
		if err := verify(t, chain, newRoot(t).Pool(), tt.name, x509.ExtKeyUsageServerAuth, now); err == nil {
			t.Errorf("%v: valid under another root", tt.s)
		}
	}
	chain, key, err := c.NewAdmin("ann", now)
	if err != nil {
		t.Fatal(err)
	}
	id := must(ParseIdentity(chain, key, c.PEM()))(t)
	if id.Subject() != (Subject{RoleAdmin, "edge", "ann"}) {
		t.Errorf("operator is %v", id.Subject())
	}
}

func TestClusterRefusesToIssue(t *testing.T) {
	t.Parallel()
	c := newCluster(t, newRoot(t), "edge")
	_, pub := testKey(t)
	own := Subject{RoleCluster, "edge", ""}
	for what, r := range map[string]LeafRequest{
		"root":            {Subject: Subject{Role: RoleRoot}},
		"admin of root":   {Subject: Subject{Role: RoleAdmin, Name: "ann"}},
		"other cluster":   {Subject: Subject{RoleCluster, "fog", ""}},
		"other's worker":  {Subject: Subject{RoleWorker, "fog", "w1"}},
		"foreign name":    {Subject: own, DNSNames: []string{ClusterName("fog")}},
		"name by suffix":  {Subject: own, DNSNames: []string{"not" + ClusterName("edge")}},
		"address":         {Subject: own, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}},
		"worker no label": {Subject: Subject{RoleWorker, "edge", "a.b"}},
	} {
		r.PublicKey = pub
		if _, err := c.Issue(r, now); err == nil {
			t.Errorf("%s: issued", what)
		}
	}
}

// A cluster that was taken over signs what it likes, past the checks of Issue.
// Everything outside its own name must fail in the verifier of its peers.
func TestConstraintsHoldAgainstATakenOverCluster(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	c := newCluster(t, root, "edge")
	key, _ := testKey(t)
	uri := func(s string) []*url.URL { return []*url.URL{must(url.Parse(s))(t)} }
	forge := func(template x509.Certificate) string {
		template.KeyUsage |= x509.KeyUsageDigitalSignature
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		cert, err := c.current.Load().issuer.sign(&template, &key.PublicKey, LeafTTL, now)
		if err != nil {
			t.Fatal(err)
		}
		return certPEM(cert) + c.Chain()
	}
	const edge, fog = "edge.cluster.verge.internal", "fog.cluster.verge.internal"
	forged := map[string]x509.Certificate{
		"root's subject":         {URIs: uri("verge://root.verge.internal/root")},
		"admin of the root":      {URIs: uri("verge://root.verge.internal/admin/eve")},
		"root's server name":     {DNSNames: []string{RootName}},
		"other cluster":          {URIs: uri("verge://" + fog + "/cluster"), DNSNames: []string{fog}},
		"other's server name":    {DNSNames: []string{fog}},
		"other's worker":         {URIs: uri("verge://" + fog + "/worker/w1")},
		"other's worker by name": {DNSNames: []string{"w1." + fog}},
		"other's admin":          {URIs: uri("verge://" + fog + "/admin/eve")},
		"name by suffix":         {DNSNames: []string{"x" + edge}},
		"subject by suffix":      {URIs: uri("verge://x" + edge + "/cluster")},
		"parent":                 {DNSNames: []string{"cluster.verge.internal"}},
		"wildcard":               {DNSNames: []string{"*.cluster.verge.internal"}},
		"any host":               {DNSNames: []string{"localhost"}},
		"address v4":             {IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}},
		"address v6":             {IPAddresses: []net.IP{net.IPv6loopback}},
		"own and foreign":        {URIs: uri("verge://" + edge + "/cluster"), DNSNames: []string{edge, RootName}},
		"subject without a host": {URIs: uri("verge:root")},
		"subject with a port":    {URIs: uri("verge://root.verge.internal:1/root")},
	}
	for what, template := range forged {
		chain := forge(template)
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			if err := verify(t, chain, root.Pool(), "", usage, now); err == nil {
				t.Errorf("%s: a forged certificate is accepted", what)
			}
		}
	}
	// The same way of forging with its own name is valid: the test can fail.
	if err := verify(t, forge(x509.Certificate{URIs: uri("verge://" + edge + "/worker/w1")}), root.Pool(), "", x509.ExtKeyUsageClientAuth, now); err != nil {
		t.Errorf("own worker: %v", err)
	}

	// Names outside every constraint count for nothing: no subject, no server.
	plain := forge(x509.Certificate{Subject: pkix.Name{CommonName: RootName}})
	if err := verify(t, plain, root.Pool(), RootName, x509.ExtKeyUsageServerAuth, now); err == nil {
		t.Error("a common name is taken for a server name")
	}
	if _, err := SubjectOf(parseCerts(t, plain)[0]); err == nil {
		t.Error("a certificate without a subject has one")
	}
}

func TestClusterCannotMakeFurtherAuthorities(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	c := newCluster(t, root, "edge")
	// The root's own certificate forbids it as well; either must do alone.
	if !c.Cert().MaxPathLenZero || c.Cert().MaxPathLen != 0 || root.certs()[0].MaxPathLen != 1 {
		t.Errorf("path length %d below the root's %d", c.Cert().MaxPathLen, root.certs()[0].MaxPathLen)
	}
	subKey, _ := testKey(t)
	sub := must(c.current.Load().issuer.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "sub"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign,
	}, &subKey.PublicKey, LeafTTL, now))(t)
	below := issuer{key: subKey, cert: sub, above: certPEM(sub) + c.Chain()}
	_, pub := testKey(t)
	chain := must(below.leaf(LeafRequest{Subject: Subject{RoleWorker, "edge", "w1"}, PublicKey: pub}, now))(t)
	if err := verify(t, chain, root.Pool(), "", x509.ExtKeyUsageClientAuth, now); err == nil {
		t.Error("an authority below a cluster's is accepted")
	}

	// A worker's certificate is no authority either.
	workerKey, workerPub := testKey(t)
	worker := must(c.Issue(LeafRequest{Subject: Subject{RoleWorker, "edge", "w1"}, PublicKey: workerPub}, now))(t)
	leaf := issuer{key: workerKey, cert: parseCerts(t, worker)[0], above: worker}
	chain = must(leaf.leaf(LeafRequest{Subject: Subject{RoleCluster, "edge", ""}, PublicKey: pub}, now))(t)
	if err := verify(t, chain, root.Pool(), "", x509.ExtKeyUsageServerAuth, now); err == nil {
		t.Error("a certificate signed by a worker is accepted")
	}
}

func TestClusterAuthorityOnDisk(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	dir := filepath.Join(t.TempDir(), "cluster")
	if _, err := OpenClusterAuthority(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before joining: %v, want os.ErrNotExist", err)
	}
	pub := must(EnsureClusterKey(dir))(t)
	if again := must(EnsureClusterKey(dir))(t); string(again) != string(pub) {
		t.Error("the second call made another key")
	}
	if fi := must(os.Stat(filepath.Join(dir, clusterKeyFile)))(t); fi.Mode().Perm() != 0o600 {
		t.Errorf("key has mode %v", fi.Mode().Perm())
	}
	if _, err := OpenClusterAuthority(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("with a key only: %v, want os.ErrNotExist", err)
	}
	chain := must(root.SignCluster(pub, "edge", now))(t)
	_, otherPub := testKey(t)
	otherKey := must(root.SignCluster(otherPub, "edge", now))(t)
	leaf := must(root.Issue(LeafRequest{Subject: Subject{Role: RoleRoot}, PublicKey: pub}, now))(t)
	for what, in := range map[string][2]string{
		"for another key": {otherKey, root.PEM()},
		"other root":      {chain, newRoot(t).PEM()},
		"a leaf":          {leaf, root.PEM()},
		"no root":         {chain, ""},
		"only the root":   {"", root.PEM()},
		"rubbish":         {"rubbish", root.PEM()},
	} {
		if err := SaveCluster(dir, in[0], in[1]); err == nil {
			t.Errorf("%s: stored", what)
		}
		if _, err := OpenClusterAuthority(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was stored: %v", what, err)
		}
	}
	if err := SaveCluster(dir, chain, root.PEM()); err != nil {
		t.Fatal(err)
	}
	c := must(OpenClusterAuthority(dir))(t)
	path := filepath.Join(dir, clusterFile)
	eachDamage(t, path, func(what string) {
		got, err := OpenClusterAuthority(dir)
		if err == nil && got.Chain() == c.Chain() && got.PEM() == c.PEM() {
			return
		}
		if what == "too large" {
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", what, err)
			}
			return
		}
		wantDamage(t, what, err, path)
	})
	if err := os.Remove(filepath.Join(dir, clusterKeyFile)); err != nil {
		t.Fatal(err)
	}
	_, err := OpenClusterAuthority(dir)
	wantDamage(t, "without its key", err, path)
}

func TestClusterCertificateLives(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	c := newCluster(t, root, "edge")
	_, pub := testKey(t)
	worker := LeafRequest{Subject: Subject{RoleWorker, "edge", "w1"}, PublicKey: pub}
	late := now.Add(ClusterTTL - day)
	chain := must(c.Issue(worker, late))(t)
	if err := verify(t, chain, root.Pool(), "", x509.ExtKeyUsageClientAuth, late.Add(time.Hour)); err != nil {
		t.Errorf("in the last days: %v", err)
	}
	if _, err := c.Issue(worker, now.Add(ClusterTTL+day)); err == nil || !strings.Contains(err.Error(), "renew") {
		t.Errorf("after the end: %v, want an error that says to renew", err)
	}
}
