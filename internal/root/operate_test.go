package root

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/people"
	"github.com/verge-edge/verge/internal/wire"
)

// newTestBackend is a root on an in-memory store, without clusters.
func newTestBackend(t *testing.T, store *bus.MemStore) backend {
	t.Helper()
	conn := bus.NewMem().Conn("link", bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}})
	t.Cleanup(conn.Close)
	c := &core{
		log: slog.New(slog.DiscardHandler), events: obs.NewEvents(time.Now(), 0), store: store,
		link: func(string) (bus.Conn, error) { return conn, nil },
	}
	if err := c.init(t.Context(), time.Minute, time.Now()); err != nil {
		t.Fatal(err)
	}
	shelf, err := objects.Open(t.Context(), objects.Options{Store: store, Blobs: bus.NewMemBlobs(), Quota: c.objectQuota})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shelf.Close)
	return backend{&Root{core: c, shelf: shelf, Book: &people.Book{Store: store, Now: time.Now}, Log: &people.Log{Store: store, Now: time.Now}}}
}

const shop = `application: shop
services:
  web:
    command: [x]
    replicas: 3 # enough
  db: {command: [y]}
`

func code(err error) string {
	var p *wire.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

func TestScaleChangesTheDescriptor(t *testing.T) {
	ctx := context.Background()
	store := bus.NewMemStore()
	b := newTestBackend(t, store)
	if _, err := b.Scale(ctx, "shop", "web", 5); code(err) != "no-such-application" {
		t.Errorf("%v", err)
	}
	if _, err := b.Apply(ctx, []byte(shop), false); err != nil {
		t.Fatal(err)
	}
	r, err := b.Scale(ctx, "shop", "web", 5)
	if err != nil || r.Revision != 2 || r.Change != "updated" {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := b.Scale(ctx, "shop", "web", 5); err != nil || r.Revision != 2 || r.Change != "unchanged" {
		t.Errorf("the same again: %+v, %v", r, err)
	}
	if _, err := b.Scale(ctx, "shop", "wbe", 5); code(err) != "cannot-scale" {
		t.Errorf("%v", err)
	}
	// It is as durable as an apply: another process says the same.
	again := newTestBackend(t, store)
	v, err := again.Application(ctx, "shop")
	if err != nil || v.Revision != 2 || !strings.Contains(v.Descriptor, "replicas: 5 # enough") || v.Services[1].Wanted != 5 {
		t.Errorf("%+v, %v", v, err)
	}
	// Another file wins, and says so; one that says the same does not.
	r, err = again.Apply(ctx, []byte(strings.Replace(shop, "replicas: 3", "replicas: 5", 1)+"  cache: {command: [z]}\n"), false)
	if err != nil || r.Revision != 3 || len(r.Warnings) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = again.Apply(ctx, []byte(shop), false)
	if err != nil || r.Revision != 4 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "services.web.replicas: 5, set by verge scale") {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = again.Apply(ctx, []byte(strings.Replace(shop, "3", "4", 1)), false); err != nil || len(r.Warnings) != 0 {
		t.Errorf("said twice: %+v, %v", r, err)
	}
	if err := again.Delete(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Scale(ctx, "shop", "web", 1); code(err) != "deleting" {
		t.Errorf("%v", err)
	}
}

func TestScaleThatCannotBeStoredChangesNothing(t *testing.T) {
	ctx := context.Background()
	store := bus.NewMemStore()
	b := newTestBackend(t, store)
	if _, err := b.Apply(ctx, []byte(shop), false); err != nil {
		t.Fatal(err)
	}
	store.FailWrites(errors.New("disk full"))
	if _, err := b.Scale(ctx, "shop", "web", 5); code(err) != "not-stored" {
		t.Errorf("%v", err)
	}
	store.FailWrites(nil)
	if v, err := b.Application(ctx, "shop"); err != nil || v.Services[1].Wanted != 3 || v.Revision != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A restart goes through the clusters one by one, and waits where what was
// started again does not become ready.
func TestARestartGoesFromClusterToCluster(t *testing.T) {
	s := newSim(t, "c1", "c2", "c3")
	for _, f := range s.fakes {
		f.room = 2
	}
	s.apply("app", 6, nil)
	s.ticks(3, time.Second)
	if got := s.running("app"); got != 6 {
		t.Fatalf("%d run\n%s", got, s.dump())
	}
	s.fakes["c2"].stuck = true
	n := s.again("app", -1)
	for range 10 {
		s.tick(time.Second)
		if ready, _ := s.endpoints("app"); ready < 4 {
			t.Fatalf("only %d of 6 answer\n%s", ready, s.dump())
		}
	}
	if s.fakes["c1"].busy != 2 || s.fakes["c2"].busy != 2 || s.fakes["c3"].busy != 0 {
		t.Fatalf("restarted %d, %d, %d", s.fakes["c1"].busy, s.fakes["c2"].busy, s.fakes["c3"].busy)
	}
	s.restart() // and another process knows where it was
	s.fakes["c2"].stuck = false
	s.ticks(10, time.Second)
	for name, f := range s.fakes {
		if f.busy != 2 {
			t.Errorf("%s restarted %d, want 2", name, f.busy)
		}
	}
	for _, c := range s.m.clusters {
		for _, r := range c.seen {
			if r.Restarted != n {
				t.Errorf("%s is at restart %d of %d", r.ID, r.Restarted, n)
			}
		}
	}
	// What is away is not waited for, and does it when it is back.
	s.fakes["c1"].linked = false
	s.tick(time.Second)
	s.again("app", -1)
	s.ticks(6, time.Second)
	if s.fakes["c3"].busy != 4 || s.fakes["c1"].busy != 2 {
		t.Errorf("c1 restarted %d, c3 %d", s.fakes["c1"].busy, s.fakes["c3"].busy)
	}
	s.fakes["c1"].linked = true
	s.ticks(4, time.Second)
	if s.fakes["c1"].busy != 4 {
		t.Errorf("c1 restarted %d after it came back", s.fakes["c1"].busy)
	}
}

func TestRestartIsStored(t *testing.T) {
	ctx := context.Background()
	store := bus.NewMemStore()
	b := newTestBackend(t, store)
	if _, err := b.Restart(ctx, "shop", wire.RestartRequest{}); code(err) != "no-such-application" {
		t.Error(err)
	}
	if _, err := b.Apply(ctx, []byte(shop), false); err != nil {
		t.Fatal(err)
	}
	if _, err := b.pass(ctx, time.Now(), true); err != nil {
		t.Fatal(err)
	}
	two, nine := 2, 9
	for _, tc := range []struct {
		q    wire.RestartRequest
		code string
		n    int
		want []string // marks after it
	}{
		{wire.RestartRequest{Service: "wbe"}, "no-such-service", 0, nil},
		{wire.RestartRequest{Ordinal: &two}, "invalid-request", 0, nil},
		{wire.RestartRequest{Service: "web", Ordinal: &nine}, "no-such-instance", 0, nil},
		{wire.RestartRequest{Service: "web", Ordinal: &two}, "", 1, []string{"web.2=1"}},
		{wire.RestartRequest{Service: "db"}, "", 1, []string{"db=2", "web.2=1"}},
		{wire.RestartRequest{Service: "web"}, "", 3, []string{"db=2", "web=3"}},
		{wire.RestartRequest{Service: "web", Ordinal: &two}, "", 1, []string{"db=2", "web=3", "web.2=4"}},
		{wire.RestartRequest{Reason: "because"}, "", 4, []string{"db=5", "web=5"}},
	} {
		r, err := b.Restart(ctx, "shop", tc.q)
		if code(err) != tc.code || len(r.Instances) != tc.n {
			t.Errorf("%+v: %+v, %v", tc.q, r, err)
		}
		if tc.code != "" {
			continue
		}
		var got []string
		marks := newTestBackend(t, store).m.apps["shop"].Restarts
		for _, k := range records.SortedKeys(marks) {
			got = append(got, fmt.Sprintf("%s=%d", k, marks[k].N))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%+v: marks %v, want %v", tc.q, got, tc.want)
		}
	}
	// A revision leaves the marks, and a restart makes no revision.
	if r, err := b.Apply(ctx, []byte(strings.Replace(shop, "3", "4", 1)), false); err != nil || r.Revision != 2 || b.m.apps["shop"].Restarts["web"].N != 5 {
		t.Errorf("%+v, %v, marks %v", r, err, b.m.apps["shop"].Restarts)
	}
	// A root that was restored from a copy does not give out a mark twice.
	b.m.clusters["edge"] = newCluster(clusterRecord{V: wire.Version, Name: "edge"}, time.Now())
	b.m.clusters["edge"].seen["shop.web.0"] = &wire.Reported{Instance: wire.Instance{App: "shop", Restarted: 41}}
	if r, err := b.Restart(ctx, "shop", wire.RestartRequest{}); err != nil || r.N != 42 {
		t.Errorf("%+v, %v", r, err)
	}
}
