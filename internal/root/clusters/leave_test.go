package clusters_test

import (
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
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
	c := roottest.NewRunningCore(t)
	c.M.Clusters["good"].KeyHash = "good-key"
	wantCode(t, "one that is not there", clusters.RemoveCluster(ctx, c, "nobody", true, now), "no-such-cluster")
	wantCode(t, "one in use", clusters.RemoveCluster(ctx, c, "good", false, now), "cluster-in-use")
	if err := clusters.RemoveCluster(ctx, c, "good", true, now); err != nil {
		t.Fatal(err)
	}
	roottest.Pass(t, c)
	if c.M.Clusters["good"] != nil {
		t.Error("it is still there")
	}
	for id, i := range c.M.Insts {
		if i.Cluster != "" {
			t.Errorf("%s is still with %s", id, i.Cluster)
		}
	}
	if len(c.M.Shares) != 0 || len(c.M.Routes["app.web"].Endpoints) != 0 {
		t.Errorf("shares %v, endpoints %v", c.M.Shares, c.M.Routes["app.web"].Endpoints)
	}
	if r := clusters.OnReport(ctx, c, "good", wire.Report{V: wire.Version}); r.Refused == "" {
		t.Error("its reports are taken")
	}
	// All others are told that its authority's key does not count, also after a
	// restart.
	again := state.NewModel(time.Minute)
	if err := core.Read(ctx, again, c.RecordStore, now); err != nil {
		t.Fatal(err)
	}
	if again.Revoked["=.good-key"] == nil || again.Gone["good-key"] == nil || again.Clusters["good"] != nil {
		t.Errorf("after a restart: %v, %v", again.Revoked, again.Gone)
	}
}

func TestRevokingTheKeyOfACluster(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	c := roottest.NewRunningCore(t)
	c.M.Clusters["good"].KeyHash = "good-key"
	if revoked, err := clusters.RevokeCluster(ctx, c, "good", now); err != nil || !revoked {
		t.Fatal(err)
	}
	revoked, err := clusters.RevokeCluster(ctx, c, "good", now)
	if wantCode(t, "twice", err, "revoked-already"); !revoked {
		t.Error("its connection is not ended again")
	}
	roottest.Pass(t, c)
	if c.M.Clusters["good"] == nil || c.M.Insts["app.web.0"].Cluster != "good" {
		t.Error("what it runs is not its own any more")
	}
}

// A cluster speaks against its own workers only, and not without bounds.
func TestAClusterSpeaksAgainstItsOwnOnly(t *testing.T) {
	c := roottest.NewRunningCore(t)
	told := 0
	c.Relayed = func() { told++ }
	hash := pki.KeyHash([]byte("a worker of good"))
	n := uint64(0)
	say := func(name string, changes ...wire.Change) {
		t.Helper()
		n++
		clusters.OnReport(t.Context(), c, name,
			wire.Report{V: wire.Version, To: wire.Rev{Inc: name, N: n}, Changes: changes})
		roottest.Pass(t, c)
	}
	lie := roottest.JSON(t, wire.Revocation{V: wire.Version, Until: time.Now().Add(time.Hour), Cluster: "good"})
	say("bad", wire.Change{Key: wire.ReportedRevoked + hash, Value: lie},
		wire.Change{Key: wire.ReportedRevoked + "../x", Value: lie},
		wire.Change{Key: wire.ReportedRevoked + "", Value: lie})
	if got := c.M.Revoked["bad."+hash]; got == nil || got.Cluster != "bad" || len(c.M.Revoked) != 1 {
		t.Errorf("clusters are told %v", c.M.Revoked)
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
	if err := c.Barred.Refuses(of("bad")); !errors.Is(err, pki.ErrRevoked) {
		t.Error(err)
	}
	if err := errors.Join(c.Barred.Refuses(of("good")), c.Revoked.Refuses(of("bad"))); err != nil {
		t.Error(err)
	}
	// It takes it back.
	say("bad")
	if len(c.M.Revoked) != 0 {
		t.Errorf("clusters are told %v", c.M.Revoked)
	}
	cl := c.M.Clusters["bad"]
	for i := range clusters.MaxRevoked + 10 {
		key := wire.ReportedRevoked + pki.KeyHash([]byte{byte(i), byte(i >> 8)})
		if err := clusters.TakeRevoked(cl,
			wire.Change{Key: key, Value: lie}); (err == nil) != (i < clusters.MaxRevoked) {
			t.Fatalf("number %d: %v", i, err)
		}
	}
	if len(cl.RevokedKeys) != clusters.MaxRevoked {
		t.Errorf("%d are held", len(cl.RevokedKeys))
	}
	if err := clusters.TakeRevoked(cl, wire.Change{Key: wire.ReportedRevoked + strings.Repeat("f", 64),
		Value: []byte("{")}); err == nil {
		t.Error("rubbish was taken")
	}
}

// A cluster that trusts something else is asked to renew.
func TestClustersAreAskedToFollowARotation(t *testing.T) {
	c := roottest.NewRunningCore(t)
	c.Trusts = "new"
	agg := func(trust string) wire.Report {
		return wire.Report{V: wire.Version, Status: roottest.JSON(t, wire.Aggregate{V: wire.Version, Trust: trust})}
	}
	if !clusters.OnReport(t.Context(), c, "bad", agg("old")).Renew {
		t.Error("it is not asked")
	}
	if clusters.OnReport(t.Context(), c, "bad", agg("new")).Renew {
		t.Error("it is asked although it follows")
	}
}
