package pki

import (
	"errors"
	"testing"
	"time"
)

// What counts no more is refused by every node, as a client and as a server; a
// cluster can speak against nobody but its own.
func TestRevokedKeys(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	edge, fog := newCluster(t, root, "edge"), newCluster(t, root, "fog")
	server := newNode(t, t.TempDir(), edge, Subject{RoleCluster, "edge", ""})
	w1 := newNode(t, t.TempDir(), edge, Subject{RoleWorker, "edge", "w1"})
	w2 := newNode(t, t.TempDir(), fog, Subject{RoleWorker, "fog", "w2"})
	server.Revoked = &Revoked{}
	hash := func(id *Identity) string { return KeyHash(id.Leaf().RawSubjectPublicKeyInfo) }
	sc := server.LiveServerTLS(requireClient, nil)
	for name, c := range map[string]struct {
		entries []string
		w1, w2  bool // let in
	}{
		"nothing":                       {nil, true, true},
		"by its cluster":                {[]string{RevokedBy("edge", hash(w1))}, false, true},
		"by another cluster":            {[]string{RevokedBy("fog", hash(w1)), RevokedBy("edge", hash(w2))}, true, true},
		"by the root":                   {[]string{RevokedBy("", hash(w2))}, true, false},
		"its cluster, by the root":      {[]string{RevokedBy("", KeyHash(fog.PublicKey()))}, true, false},
		"its cluster, by another":       {[]string{RevokedBy("edge", KeyHash(fog.PublicKey()))}, true, true},
		"a key that nobody has":         {[]string{RevokedBy("", "00")}, true, true},
		"the root itself, by a cluster": {[]string{RevokedBy("edge", root.Pin())}, true, true},
	} {
		server.Revoked.Set(c.entries)
		for id, in := range map[*Identity]bool{w1: c.w1, w2: c.w2} {
			_, _, err, _ := handshake(t, sc, id.ClientTLS(ClusterName("edge")))
			if in != (err == nil) || (!in && !errors.Is(err, ErrRevoked)) {
				t.Errorf("%s: %s gives %v", name, id.Subject(), err)
			}
		}
	}
	w1.Revoked = &Revoked{}
	w1.Revoked.Set([]string{RevokedBy("", KeyHash(edge.PublicKey()))})
	if _, _, _, err := handshake(t, sc, w1.ClientTLS(ClusterName("edge"))); !errors.Is(err, ErrRevoked) {
		t.Errorf("a worker meets its cluster whose key was revoked: %v", err)
	}
	var none *Revoked
	if err := none.Refuses(nil); err != nil {
		t.Error(err)
	}
}

// Certificates that no handshake may accept, whatever order they come in.
func TestBadCertificatesAreRefused(t *testing.T) {
	t.Parallel()
	root, other := newRoot(t), newRoot(t)
	edge, twin := newCluster(t, root, "edge"), newCluster(t, other, "edge")
	server := newNode(t, t.TempDir(), edge, Subject{RoleCluster, "edge", ""})
	worker := Subject{RoleWorker, "edge", "w1"}
	sc := server.LiveServerTLS(requireClient, nil)
	at := func(ca authority, made time.Time) *Identity {
		dir := t.TempDir()
		pub := must(EnsureKey(dir))(t)
		chain := must(ca.Issue(LeafRequest{Subject: worker, PublicKey: pub, TTL: time.Hour}, made))(t)
		if err := SaveIdentity(dir, chain, ca.PEM()); err != nil {
			t.Fatal(err)
		}
		id := must(LoadIdentity(dir))(t)
		id.Clock = stopped(now)
		return id
	}
	for name, id := range map[string]*Identity{
		"expired":                         at(edge, now.Add(-2*time.Hour)),
		"not yet valid":                   at(edge, now.Add(48*time.Hour)),
		"of a root with the same name":    at(twin, now),
		"of another root, its worker too": newNode(t, t.TempDir(), newCluster(t, other, "fog"), Subject{RoleWorker, "fog", "w1"}),
	} {
		// The client trusts whoever answers, so that only the server's verdict counts.
		cc := id.ClientTLS(ClusterName("edge"))
		cc.VerifyConnection = nil
		if _, _, err, _ := handshake(t, sc, cc); err == nil {
			t.Errorf("%s: let in", name)
		}
	}
	if _, _, err, cliErr := handshake(t, sc, at(edge, now).ClientTLS(ClusterName("edge"))); err != nil || cliErr != nil {
		t.Errorf("a good one: %v, %v", err, cliErr)
	}
}
