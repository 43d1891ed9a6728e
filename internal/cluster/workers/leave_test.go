package workers_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/report"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

func TestRemovingAWorker(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	store := bustest.NewMemStore()
	c := clustertest.NewCore(t, store)
	clustertest.AddWorkers(t, c, "w1", "w2")
	hash := pki.KeyHash([]byte("w1"))
	_, err := workers.RemoveWorker(ctx, c, "w9", true, now)
	clustertest.WantCode(t, "one that is not there", err, "no-such-worker")
	c.M.Workers["w1"].Connected = true
	_, err = workers.RemoveWorker(ctx, c, "w1", false, now)
	clustertest.WantCode(t, "one that is connected", err, "worker-connected")
	c.M.Workers["w1"].Cordon = &wire.Cordon{At: now}
	c.M.Insts["app.web.0"] = &wire.Instance{ID: "app.web.0", App: "app", Service: "web", Worker: "w1",
		State: wire.Running}
	_, err = workers.RemoveWorker(ctx, c, "w1", false, now)
	clustertest.WantCode(t, "one in use", err, "worker-in-use")
	delete(c.M.Insts, "app.web.0")

	store.FailWrites(errors.New("disk full"))
	_, err = workers.RemoveWorker(ctx, c, "w1", false, now)
	clustertest.WantCode(t, "what cannot be stored", err, "not-stored")
	if c.M.Workers["w1"] == nil || len(c.M.Gone) != 0 {
		t.Error("it is gone, although that is not stored")
	}
	store.FailWrites(nil)
	c.M.Workers["w1"].Connected = false // stopped
	g, err := workers.RemoveWorker(ctx, c, "w1", false, now)
	if err != nil || !g.Removed || g.NatsKey != "Uw1" || g.Until.Before(now.Add(pki.LeafTTL+pki.RenewGrace-time.Hour)) {
		t.Fatalf("%+v, %v", g, err)
	}
	if c.M.Workers["w1"] != nil || c.M.Workers["w2"] == nil {
		t.Error("the wrong one is gone")
	}
	if r := workers.OnReport(ctx, c, "w1", wire.Report{V: wire.Version}); r.Refused == "" {
		t.Error("its reports are taken")
	}
	// The same after a restart; the workers and the root are told.
	again := clustertest.NewCore(t, store)
	if again.M.Workers["w1"] != nil || again.M.Gone[hash] == nil ||
		!slices.Contains(again.M.Revoked(), pki.RevokedBy("edge", hash)) {
		t.Error("a restart forgot it")
	}
	for _, prefix := range []string{state.KeyRevoked, state.KeyUp + state.UpRevoked} {
		if list, err := store.List(ctx, prefix); err != nil || len(list) != 1 ||
			!strings.HasSuffix(list[0].Key, hash) || strings.Contains(string(list[0].Value), "w1") {
			t.Errorf("%s: %v, %v", prefix, list, err)
		}
	}
}

func TestRevokingAKey(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	store := bustest.NewMemStore()
	c := clustertest.NewCore(t, store)
	clustertest.AddWorkers(t, c, "w1")
	if g, err := workers.RevokeWorker(ctx, c, "w1", now); err != nil || g.Removed {
		t.Fatalf("%+v, %v", g, err)
	}
	g, err := workers.RevokeWorker(ctx, c, "w1", now)
	if clustertest.WantCode(t, "twice", err, "revoked-already"); g == nil {
		t.Error("its connection is not ended again")
	}
	if w := clustertest.NewCore(t, store).M.Workers["w1"]; w == nil || w.Revoked.IsZero() {
		t.Errorf("after a restart: %+v", w)
	}
	if _, err := workers.RemoveWorker(ctx, c, "w1", true, now); err != nil {
		t.Error(err)
	}
}

// The list is bounded: beyond it those go that are of use soonest.
func TestTheListOfRevokedKeysIsBounded(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	store := bustest.NewMemStore()
	c := clustertest.NewCore(t, store)
	clustertest.AddWorkers(t, c, "first", "last")
	if _, err := workers.RemoveWorker(ctx, c, "first", true, now); err != nil {
		t.Fatal(err)
	}
	first := pki.KeyHash([]byte("first"))
	c.M.Gone[first].Until = now
	for n := len(c.M.Gone); n < core.MaxGone; n++ {
		g := *c.M.Gone[first]
		g.Until = now.Add(time.Hour)
		c.M.Gone[pki.KeyHash([]byte{byte(n), byte(n >> 8)})] = &g
	}
	if _, err := workers.RemoveWorker(ctx, c, "last", true, now); err != nil {
		t.Fatal(err)
	}
	if len(c.M.Gone) != core.MaxGone || c.M.Gone[first] != nil {
		t.Errorf("%d are kept, the first among them: %v", len(c.M.Gone), c.M.Gone[first] != nil)
	}
	if _, err := store.Get(ctx, state.KeyRevoked+first); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("the workers are still told of the first: %v", err)
	}
}

// What other clusters and the root say comes from the root, and counts for theirs.
func TestRevokedKeysOfOthers(t *testing.T) {
	ctx := context.Background()
	store := bustest.NewMemStore()
	c := clustertest.NewCore(t, store)
	d := uplink.FromRoot(c)
	change := func(key, cluster string) wire.Change {
		b, err := json.Marshal(wire.Revocation{V: wire.Version, Until: time.Now(), Cluster: cluster})
		if err != nil {
			t.Fatal(err)
		}
		return wire.Change{Key: "revoked." + key, Value: b}
	}
	to := wire.Rev{Inc: "root", N: 1}
	if err := d.Take(ctx, true, []wire.Change{change("=.aa", ""), change("fog.bb", "fog"), change("edge.cc", "edge")},
		to, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{pki.RevokedBy("", "aa"), pki.RevokedBy("fog", "bb")}
	for _, x := range []*core.Core{c, clustertest.NewCore(t, store)} {
		got := x.M.Revoked()
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("revoked %v, want %v", got, want)
		}
	}
	to.N++
	if err := d.Take(ctx, false, []wire.Change{{Key: "revoked.fog.bb", Deleted: true}}, to, nil); err != nil {
		t.Fatal(err)
	}
	if got := c.M.Revoked(); !slices.Equal(got, want[:1]) {
		t.Errorf("after one was forgotten: %v", got)
	}
}

// A worker that trusts something else than its cluster is asked to renew, until
// it says that it has.
func TestWorkersAreAskedToFollowARotation(t *testing.T) {
	c := clustertest.NewCore(t, bustest.NewMemStore())
	clustertest.AddWorkers(t, c, "w1")
	uplink.Memory(c.M).Trusts, uplink.Memory(c.M).Signs = "new", "key"
	reports := func(trust, issuer string) wire.ReportReply {
		b, err := json.Marshal(wire.WorkerInfo{V: wire.Version, Name: "w1", Trust: trust, Issuer: issuer})
		if err != nil {
			t.Fatal(err)
		}
		c.M.Workers["w1"].Told = time.Time{}
		return workers.OnReport(t.Context(), c, "w1", wire.Report{V: wire.Version, Status: b})
	}
	if !reports("old", "key").Renew || report.Behind(c.M, "new") != 1 {
		t.Error("it is not asked")
	}
	if reports("new", "key").Renew || report.Behind(c.M, "new") != 0 {
		t.Error("it is asked although it follows")
	}
	if !reports("new", "the key before").Renew {
		t.Error("it is not asked although the cluster has another key now")
	}
	if reports("new", "").Renew {
		t.Error("one that does not say who certified it is asked again and again")
	}
}
