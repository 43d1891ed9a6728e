package root

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
)

func TestChangesAreCountedByService(t *testing.T) {
	ctx := access.With(context.Background(), access.Who{Name: "admin", Admin: true})
	store := bus.NewMemStore()
	b := newTestBackend(t, store)
	want := func(what string, app, all uint64) {
		t.Helper()
		s := newTestBackend(t, store).status(ctx) // as another process knows it
		if len(s.Apps) > 0 && s.Apps[0].Tally.Changes != app || s.Tally.Changes != all {
			t.Fatalf("%s: %+v and %+v, want %d and %d", what, s.Apps, s.Tally, app, all)
		}
	}
	apply := func(source string) {
		t.Helper()
		if _, err := b.Apply(ctx, []byte(source), false); err != nil {
			t.Fatal(err)
		}
	}
	apply(shop)
	want("created", 2, 2)
	apply(shop)
	want("the same", 2, 2)
	apply(shop + "  cache: {command: [z]}\n")
	want("one added", 3, 3)
	apply(strings.Replace(shop, "command: [x]", "command: [w]", 1))
	want("one changed, one removed", 5, 5)
	if _, err := b.Scale(ctx, "shop", "web", 5); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Restart(ctx, "shop", wire.RestartRequest{}); err != nil {
		t.Fatal(err)
	}
	want("scaled and restarted", 6, 6)
	if err := b.Delete(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	want("on its way out", 8, 8)
	pass(t, b.core)
	if len(b.m.apps) != 0 {
		t.Fatal("the application is still there")
	}
	want("gone", 0, 8)
	apply(shop)
	want("anew", 2, 10)
}

// A cluster says what it has counted; the root shows it, and what of it came after
// the cluster was away.
func TestCountsOfClusters(t *testing.T) {
	c := newHostileCore(t)
	report := func(from, to uint64, changes ...wire.Change) {
		t.Helper()
		r := wire.Report{V: wire.Version, To: wire.Rev{Inc: "good", N: to}, Changes: changes, From: wire.Rev{Inc: "good", N: from}}
		c.onReport(t.Context(), "good", r)
	}
	tally := func(app string, restarts, changes uint64) wire.Change {
		return wire.Change{Key: wire.ReportedTally + app, Value: encoded(t, wire.Tally{Restarts: restarts, Changes: changes})}
	}
	good := func() wire.ClusterView {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.m.clusterView(c.m.clusters["good"], time.Now())
	}
	report(2, 3, tally("app", 2, 1), tally(wire.TallyGone, 1, 1), wire.Change{Key: wire.ReportedTally, Value: []byte(`{}`)},
		wire.Change{Key: wire.ReportedTally + "odd", Value: []byte(`[]`)})
	if v := good(); *v.Tally != (wire.Tally{Restarts: 3, Changes: 2}) || v.SinceAway != nil {
		t.Fatalf("%+v, %+v", v.Tally, v.SinceAway)
	}
	if v := c.m.appView(c.m.apps["app"]); v.Tally.Restarts != 2 {
		t.Errorf("%+v", v.Tally)
	}
	at := time.Now()
	c.mu.Lock()
	c.m.clusters["good"].lose(at)
	c.mu.Unlock()
	report(3, 4, tally("app", 2, 4))
	if v := good(); v.SinceAway == nil || v.SinceAway.String() != "0 restarts, 3 changes applied" || !v.SinceAway.At.Equal(at) {
		t.Errorf("%+v", v.SinceAway)
	}
	report(4, 5, wire.Change{Key: wire.ReportedTally + "app", Deleted: true}, tally(wire.TallyGone, 1<<63, 1<<63))
	if v := good(); v.Tally.Restarts != 1<<40 {
		t.Errorf("no bound: %+v", v.Tally)
	}
	// One that has not been heard has counted nothing that is known.
	c.m.clusters["bad"].lose(at)
	if v := c.m.clusterView(c.m.clusters["bad"], at); v.Tally != nil || v.SinceAway != nil {
		t.Errorf("%+v, %+v", v.Tally, v.SinceAway)
	}
	who := access.With(t.Context(), access.Who{Name: "admin", Admin: true})
	if s := c.status(who); s.Tally.Restarts != 1<<40 {
		t.Errorf("%+v", s.Tally)
	}
}
