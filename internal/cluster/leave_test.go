package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

// withWorkers registers workers in a core, as joining does.
func withWorkers(t *testing.T, c *core, names ...string) {
	t.Helper()
	for _, name := range names {
		rec := state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{V: wire.Version, Name: name, Trust: "old"}, Joined: time.Now(), PublicKey: "U" + name, KeyHash: pki.KeyHash([]byte(name))}
		b, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.store.Put(t.Context(), state.KeyWorker+name, b); err != nil {
			t.Fatal(err)
		}
		c.m.Workers[name] = state.NewWorker(rec, time.Now())
	}
}

func wantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	var p *wire.Problem
	if !errors.As(err, &p) || p.Code != code || p.Remedy == "" {
		t.Errorf("%s: %v, want %s with a remedy", what, err, code)
	}
}

func TestRemovingAWorker(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	store := bus.NewMemStore()
	c := newTestCore(t, store)
	withWorkers(t, c, "w1", "w2")
	hash := pki.KeyHash([]byte("w1"))
	_, err := c.removeWorker(ctx, "w9", true, now)
	wantCode(t, "one that is not there", err, "no-such-worker")
	c.m.Workers["w1"].Connected = true
	_, err = c.removeWorker(ctx, "w1", false, now)
	wantCode(t, "one that is connected", err, "worker-connected")
	c.m.Workers["w1"].Cordon = &wire.Cordon{At: now}
	c.m.Insts["app.web.0"] = &wire.Instance{ID: "app.web.0", App: "app", Service: "web", Worker: "w1", State: wire.Running}
	_, err = c.removeWorker(ctx, "w1", false, now)
	wantCode(t, "one in use", err, "worker-in-use")
	delete(c.m.Insts, "app.web.0")

	store.FailWrites(errors.New("disk full"))
	_, err = c.removeWorker(ctx, "w1", false, now)
	wantCode(t, "what cannot be stored", err, "not-stored")
	if c.m.Workers["w1"] == nil || len(c.m.Gone) != 0 {
		t.Error("it is gone, although that is not stored")
	}
	store.FailWrites(nil)
	c.m.Workers["w1"].Connected = false // stopped
	g, err := c.removeWorker(ctx, "w1", false, now)
	if err != nil || !g.Removed || g.NatsKey != "Uw1" || g.Until.Before(now.Add(pki.LeafTTL+pki.RenewGrace-time.Hour)) {
		t.Fatalf("%+v, %v", g, err)
	}
	if c.m.Workers["w1"] != nil || c.m.Workers["w2"] == nil {
		t.Error("the wrong one is gone")
	}
	if r := c.onReport(ctx, "w1", wire.Report{V: wire.Version}); r.Refused == "" {
		t.Error("its reports are taken")
	}
	// The same after a restart; the workers and the root are told.
	again := newTestCore(t, store)
	if again.m.Workers["w1"] != nil || again.m.Gone[hash] == nil || !slices.Contains(again.m.Revoked(), pki.RevokedBy("edge", hash)) {
		t.Error("a restart forgot it")
	}
	for _, prefix := range []string{state.KeyRevoked, state.KeyUp + state.UpRevoked} {
		if list, err := store.List(ctx, prefix); err != nil || len(list) != 1 || !strings.HasSuffix(list[0].Key, hash) || strings.Contains(string(list[0].Value), "w1") {
			t.Errorf("%s: %v, %v", prefix, list, err)
		}
	}
}

func TestRevokingAKey(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	store := bus.NewMemStore()
	c := newTestCore(t, store)
	withWorkers(t, c, "w1")
	if g, err := c.revokeWorker(ctx, "w1", now); err != nil || g.Removed {
		t.Fatalf("%+v, %v", g, err)
	}
	_, err := c.revokeWorker(ctx, "w1", now)
	wantCode(t, "twice", err, "revoked-already")
	if w := newTestCore(t, store).m.Workers["w1"]; w == nil || w.Revoked.IsZero() {
		t.Errorf("after a restart: %+v", w)
	}
	if _, err := c.removeWorker(ctx, "w1", true, now); err != nil {
		t.Error(err)
	}
}

// The list is bounded: beyond it those go that are of use soonest.
func TestTheListOfRevokedKeysIsBounded(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	store := bus.NewMemStore()
	c := newTestCore(t, store)
	withWorkers(t, c, "first", "last")
	if _, err := c.removeWorker(ctx, "first", true, now); err != nil {
		t.Fatal(err)
	}
	first := pki.KeyHash([]byte("first"))
	c.m.Gone[first].Until = now
	for n := len(c.m.Gone); n < maxGone; n++ {
		g := *c.m.Gone[first]
		g.Until = now.Add(time.Hour)
		c.m.Gone[pki.KeyHash([]byte{byte(n), byte(n >> 8)})] = &g
	}
	if _, err := c.removeWorker(ctx, "last", true, now); err != nil {
		t.Fatal(err)
	}
	if len(c.m.Gone) != maxGone || c.m.Gone[first] != nil {
		t.Errorf("%d are kept, the first among them: %v", len(c.m.Gone), c.m.Gone[first] != nil)
	}
	if _, err := store.Get(ctx, state.KeyRevoked+first); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("the workers are still told of the first: %v", err)
	}
}

// What other clusters and the root say comes from the root, and counts for theirs.
func TestRevokedKeysOfOthers(t *testing.T) {
	ctx := context.Background()
	store := bus.NewMemStore()
	c := newTestCore(t, store)
	d := (*rootDesired)(c)
	change := func(key, cluster string) wire.Change {
		b, err := json.Marshal(wire.Revocation{V: wire.Version, Until: time.Now(), Cluster: cluster})
		if err != nil {
			t.Fatal(err)
		}
		return wire.Change{Key: "revoked." + key, Value: b}
	}
	to := wire.Rev{Inc: "root", N: 1}
	if err := d.Take(ctx, true, []wire.Change{change("=.aa", ""), change("fog.bb", "fog"), change("edge.cc", "edge")}, to, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{pki.RevokedBy("", "aa"), pki.RevokedBy("fog", "bb")}
	for _, x := range []*core{c, newTestCore(t, store)} {
		got := x.m.Revoked()
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("revoked %v, want %v", got, want)
		}
	}
	to.N++
	if err := d.Take(ctx, false, []wire.Change{{Key: "revoked.fog.bb", Deleted: true}}, to, nil); err != nil {
		t.Fatal(err)
	}
	if got := c.m.Revoked(); !slices.Equal(got, want[:1]) {
		t.Errorf("after one was forgotten: %v", got)
	}
}

// A worker that trusts something else than its cluster is asked to renew, until
// it says that it has.
func TestWorkersAreAskedToFollowARotation(t *testing.T) {
	c := newTestCore(t, bus.NewMemStore())
	withWorkers(t, c, "w1")
	c.trusts, c.signs = "new", "key"
	report := func(trust, issuer string) wire.ReportReply {
		b, err := json.Marshal(wire.WorkerInfo{V: wire.Version, Name: "w1", Trust: trust, Issuer: issuer})
		if err != nil {
			t.Fatal(err)
		}
		c.m.Workers["w1"].Told = time.Time{}
		return c.onReport(t.Context(), "w1", wire.Report{V: wire.Version, Status: b})
	}
	if !report("old", "key").Renew || c.m.behind("new") != 1 {
		t.Error("it is not asked")
	}
	if report("new", "key").Renew || c.m.behind("new") != 0 {
		t.Error("it is asked although it follows")
	}
	if !report("new", "the key before").Renew {
		t.Error("it is not asked although the cluster has another key now")
	}
	if report("new", "").Renew {
		t.Error("one that does not say who certified it is asked again and again")
	}
}

// Over its link a worker renews for itself only, and only with the key that it is
// registered with.
func TestAWorkerRenewsForItselfOnly(t *testing.T) {
	ctx := t.Context()
	c := newTestCore(t, bus.NewMemStore())
	withWorkers(t, c, "w1", "w2")
	b := &Cluster{core: c, clock: pki.OpenClock(t.TempDir())}
	ask := func(subject, name, key string) error {
		_, err := b.renewWorker(ctx, subject, wire.RenewRequest{V: wire.Version, Name: name, PublicKey: []byte(key), NatsKey: "U" + key})
		return err
	}
	wantCode(t, "for another", ask("w1", "w2", "w2"), "another-name")
	wantCode(t, "with another's key", ask("w1", "w1", "w2"), wire.CodeUnknown)
	wantCode(t, "one that is not registered", ask("w9", "w9", "w9"), wire.CodeUnknown)
	if _, err := c.revokeWorker(ctx, "w2", time.Now()); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "with a revoked key", ask("w2", "w2", "w2"), wire.CodeRevoked)
	wantCode(t, "with the revoked key of another", ask("w1", "w1", "w2"), wire.CodeRevoked)
	if _, err := c.removeWorker(ctx, "w1", true, time.Now()); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "one that was removed", ask("w1", "w1", "w1"), wire.CodeRemoved)
	// Another node cannot join with a key that does not count, whatever its name.
	withWorkers(t, c, "w3")
	c.m.Workers["w3"].Expires = time.Now().Add(-pki.RenewGrace - time.Hour)
	wantCode(t, "one that was away for too long", ask("w3", "w3", "w3"), wire.CodeTooLate)
}
