package root

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/obs"
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
	return backend{&Root{core: c}}
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
