package revisions_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/root/controller"
	"github.com/verge-edge/verge/internal/root/revisions"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/wire"
)

// Revisions survive a restart of the root, are bounded, and are deleted with their application.
func TestRevisionsAreBounded(t *testing.T) {
	ctx := context.Background()
	store := bustest.NewMemStore()
	b := roottest.NewBackend(t, store)
	text := func(n int) string {
		return fmt.Sprintf("application: shop # version %d\nservices:\n  web: {command: [x%d]}\n  db: {command: [y]}\n", n, n)
	}
	const last = 25
	for n := range last {
		if _, err := b.Apply(ctx, []byte(text(n+1)), false); err != nil {
			t.Fatal(err)
		}
	}
	b = roottest.NewBackend(t, store)
	list, err := b.Revisions(ctx, "shop")
	if err != nil || len(list) != wire.MaxRevisions+1 || !list[0].Current || list[0].Revision != last ||
		list[1].Revision != last-1 || list[wire.MaxRevisions].Revision != last-wire.MaxRevisions {
		t.Fatalf("%v %+v", err, list)
	}
	if got := list[1].Changed; len(got) != 1 || got[0] != "web: command" {
		t.Errorf("%q", got)
	}
	if r, err := b.Revision(ctx, "shop", 20); err != nil || r.Descriptor != text(20) {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := b.Revision(ctx, "shop", 3); roottest.Code(err) != "no-such-revision" {
		t.Errorf("%v", err)
	}
	if err := b.Delete(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	if _, err := controller.Pass(ctx, b.Core, time.Now(), true); err != nil {
		t.Fatal(err)
	}
	left, err := store.List(ctx, revisions.Key)
	if err != nil || len(left) > 0 || len(revisions.Memory(b.M).History["shop"]) > 0 {
		t.Errorf("%d revisions are left: %v", len(left), err)
	}
}
