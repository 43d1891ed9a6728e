// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package root

import (
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

func wantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	var p *wire.Problem
	if !errors.As(err, &p) || p.Code != code || p.Remedy == "" {
		t.Errorf("%s: %v, want %s with a remedy", what, err, code)
	}
}

func TestRemovingACluster(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	c := newHostileCore(t)
	c.m.clusters["good"].KeyHash = "good-key"
	wantCode(t, "one that is not there", c.removeCluster(ctx, "nobody", true, now), "no-such-cluster")
	wantCode(t, "one in use", c.removeCluster(ctx, "good", false, now), "cluster-in-use")
	if err := c.removeCluster(ctx, "good", true, now); err != nil {
		t.Fatal(err)
	}
	pass(t, c)
	if c.m.clusters["good"] != nil {
		t.Error("it is still there")
	}
	for id, i := range c.m.insts {
		if i.Cluster != "" {
			t.Errorf("%s is still with %s", id, i.Cluster)
		}
	}
	if len(c.m.shares) != 0 || len(c.m.routes["app.web"].Endpoints) != 0 {
		t.Errorf("shares %v, endpoints %v", c.m.shares, c.m.routes["app.web"].Endpoints)
	}
	if r := c.onReport(ctx, "good", wire.Report{V: wire.Version}); r.Refused == "" {
		t.Error("its reports are taken")
	}
	// All others are told that its authority's key does not count, also after a
	// restart.
	again := newModel(time.Minute)
	if err := again.read(ctx, c.store, now); err != nil {
		t.Fatal(err)
	}
	if again.revoked["=.good-key"] == nil || again.gone["good-key"] == nil || again.clusters["good"] != nil {
		t.Errorf("after a restart: %v, %v", again.revoked, again.gone)
	}
}

func TestRevokingTheKeyOfACluster(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	c := newHostileCore(t)
	c.m.clusters["good"].KeyHash = "good-key"
	if err := c.revokeCluster(ctx, "good", now); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "twice", c.revokeCluster(ctx, "good", now), "revoked-already")
	pass(t, c)
	if c.m.clusters["good"] == nil || c.m.insts["app.web.0"].Cluster != "good" {
		t.Error("what it runs is not its own any more")
	}
}

// A cluster speaks against its own workers only, and not without bounds.
func TestAClusterSpeaksAgainstItsOwnOnly(t *testing.T) {
	c := newHostileCore(t)
	told := 0
	c.relayed = func() { told++ }
	hash := pki.KeyHash([]byte("a worker of good"))
	n := uint64(0)
	say := func(name string, changes ...wire.Change) {
		t.Helper()
		n++
		c.onReport(t.Context(), name, wire.Report{V: wire.Version, To: wire.Rev{Inc: name, N: n}, Changes: changes})
		pass(t, c)
	}
	lie := encoded(t, wire.Revocation{V: wire.Version, Until: time.Now().Add(time.Hour), Cluster: "good"})
	say("bad", wire.Change{Key: upRevoked + hash, Value: lie}, wire.Change{Key: upRevoked + "../x", Value: lie}, wire.Change{Key: upRevoked + "", Value: lie})
	if got := c.m.revoked["bad."+hash]; got == nil || got.Cluster != "bad" || len(c.m.revoked) != 1 {
		t.Errorf("clusters are told %v", c.m.revoked)
	}
	// The relay refuses its worker, and is told at once; not that of another.
	if told == 0 {
		t.Error("the relay is not told")
	}
	of := func(cluster string) []*x509.Certificate {
		u, err := url.Parse("verge://" + pki.ClusterName(cluster) + "/worker/w1")
		if err != nil {
			t.Fatal(err)
		}
		return []*x509.Certificate{{RawSubjectPublicKeyInfo: []byte("a worker of good"), URIs: []*url.URL{u}}}
	}
	if err := c.barred.Refuses(of("bad")); !errors.Is(err, pki.ErrRevoked) {
		t.Error(err)
	}
	if err := errors.Join(c.barred.Refuses(of("good")), c.revoked.Refuses(of("bad"))); err != nil {
		t.Error(err)
	}
	// It takes it back.
	say("bad")
	if len(c.m.revoked) != 0 {
		t.Errorf("clusters are told %v", c.m.revoked)
	}
	cl := c.m.clusters["bad"]
	for i := range maxRevoked + 10 {
		key := upRevoked + pki.KeyHash([]byte{byte(i), byte(i >> 8)})
		if err := cl.takeRevoked(wire.Change{Key: key, Value: lie}); (err == nil) != (i < maxRevoked) {
			t.Fatalf("number %d: %v", i, err)
		}
	}
	if len(cl.revoked) != maxRevoked {
		t.Errorf("%d are held", len(cl.revoked))
	}
	if err := cl.takeRevoked(wire.Change{Key: upRevoked + strings.Repeat("f", 64), Value: []byte("{")}); err == nil {
		t.Error("rubbish was taken")
	}
}

// A cluster that trusts something else is asked to renew.
func TestClustersAreAskedToFollowARotation(t *testing.T) {
	c := newHostileCore(t)
	c.trusts = "new"
	agg := func(trust string) wire.Report {
		return wire.Report{V: wire.Version, Status: encoded(t, wire.Aggregate{V: wire.Version, Trust: trust})}
	}
	if !c.onReport(t.Context(), "bad", agg("old")).Renew {
		t.Error("it is not asked")
	}
	if c.onReport(t.Context(), "bad", agg("new")).Renew {
		t.Error("it is asked although it follows")
	}
}
