package counters_test

import (
	"context"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/views"
)

func TestChangesAreCountedByService(t *testing.T) {
	ctx := access.With(context.Background(), access.Who{Name: "admin", Admin: true})
	store := bustest.NewMemStore()
	b := roottest.NewBackend(t, store)
	want := func(what string, app, all uint64) {
		t.Helper()
		s := views.Status(ctx, roottest.NewBackend(t, store).Core) // as another process knows it
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
	apply(roottest.Shop)
	want("created", 2, 2)
	apply(roottest.Shop)
	want("the same", 2, 2)
	apply(roottest.Shop + "  cache: {command: [z]}\n")
	want("one added", 3, 3)
	apply(strings.Replace(roottest.Shop, "command: [x]", "command: [w]", 1))
	want("one changed, one removed", 5, 5)
	if _, err := b.Scale(ctx, "shop", "web", 5); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Restart(ctx, "shop", apiv1.RestartRequest{}); err != nil {
		t.Fatal(err)
	}
	want("scaled and restarted", 6, 6)
	if err := b.Delete(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	want("on its way out", 8, 8)
	roottest.Pass(t, b.Core)
	if len(b.M.Apps) != 0 {
		t.Fatal("the application is still there")
	}
	want("gone", 0, 8)
	apply(roottest.Shop)
	want("anew", 2, 10)
}
