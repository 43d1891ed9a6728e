package undo_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/undo"
	"github.com/verge-edge/verge/internal/wire"
)

// Revisions are kept, and an undo brings one back exactly: the whole of it, or one service.
func TestUndo(t *testing.T) {
	ctx := context.Background()
	store := bustest.NewMemStore()
	b := roottest.NewBackend(t, store)
	text := func(web, db string) string {
		return fmt.Sprintf("application: shop # version %s\nservices:\n  web: {command: [%s], replicas: 3}\n  "+
			"db: {command: [%s]}\n", web, web, db)
	}
	apply := func(web, db string) {
		t.Helper()
		if _, err := b.Apply(ctx, []byte(text(web, db)), false); err != nil {
			t.Fatal(err)
		}
		b.M.Apps["shop"].Held = map[string]bool{"web": true, "db": true}
	}
	apply("x1", "y1")
	first := b.M.Apps["shop"].Spec
	if _, err := b.Undo(ctx, "shop", apiv1.RolloutRequest{}); roottest.Code(err) != "no-earlier-revision" {
		t.Errorf("%v", err)
	}
	apply("x2", "y1")
	apply("x2", "y2")
	r, err := b.Undo(ctx, "shop", apiv1.RolloutRequest{To: 1, Reason: "slow"})
	app := b.M.Apps["shop"]
	if err != nil || r.Revision != 4 || r.Change != "updated" || !records.Same(app.Spec, first) ||
		app.Source != text("x1", "y1") || app.Why != "undo to revision 1: slow" {
		t.Fatalf("%+v %v: %+v", r, err, app)
	}
	// One service: what changed it last, with the other as it is.
	if r, err = b.Undo(ctx, "shop", apiv1.RolloutRequest{Service: "web"}); err != nil || r.Revision != 5 {
		t.Fatalf("%+v %v", r, err)
	}
	app = b.M.Apps["shop"]
	if app.Spec.Services["web"].Command[0] != "x2" || app.Spec.Services["db"].Command[0] != "y1" {
		t.Errorf("%s", app.Source)
	}
	if spec, _, err := descriptor.Parse("", []byte(app.Source)); err != nil || !records.Same(spec, app.Spec) {
		t.Errorf("%v: %s", err, app.Source)
	}
	for q, want := range map[apiv1.RolloutRequest]string{{To: 77}: "no-such-revision",
		{Service: "nope"}: "no-such-service", {Service: "nope", To: 1}: "no-such-service"} {
		if _, err := b.Undo(ctx, "shop", q); roottest.Code(err) != want {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if r, err := b.Undo(ctx, "shop", apiv1.RolloutRequest{To: 5}); err != nil || r.Change != "unchanged" {
		t.Errorf("%+v %v", r, err)
	}
}

// Where the descriptor asks for it, what has failed is undone by itself, once.
func TestARolloutThatFailedIsUndone(t *testing.T) {
	ctx := context.Background()
	b := roottest.NewBackend(t, bustest.NewMemStore())
	text := "application: shop\nservices:\n  web: {command: [%s], rollout: {on_failure: rollback}}\n"
	for _, cmd := range []string{"good", "bad"} {
		if _, err := b.Apply(ctx, fmt.Appendf(nil, text, cmd), false); err != nil {
			t.Fatal(err)
		}
		b.M.Apps["shop"].Held = map[string]bool{"web": cmd == "good"}
	}
	now := time.Now()
	c := state.NewCluster(state.ClusterRecord{V: wire.Version, Name: "edge"}, now)
	c.EverHeard = true
	b.M.Clusters["edge"] = c
	fails := func() {
		spec := b.M.Apps["shop"].Spec.Services["web"]
		b.M.Shares["edge.shop.web"] = &wire.Share{V: wire.Version, App: "shop", Service: "web",
			Revision: b.M.Apps["shop"].Revision, Min: 1, Max: 1, Spec: spec}
		c.Rollouts = map[string]*wire.RolloutReport{"shop.web": {App: "shop", Service: "web",
			Program: spec.ProgramID(), Phase: wire.RolloutFailed, Why: "web.0: exited with 1"}}
		core.Do(b.Core, func(*state.Model) {
			undo.RollBack(ctx, b.Core, now)
		})
	}
	fails()
	app := b.M.Apps["shop"]
	if app.Revision != 3 || app.Spec.Services["web"].Command[0] != "good" ||
		app.Why != "undo of web to revision 1: its rollout failed, cluster edge: web.0: exited with 1" ||
		app.By != "verge" {
		t.Fatalf("%+v", app)
	}
	fails() // the one that was brought back too
	if app := b.M.Apps["shop"]; app.Revision != 3 {
		t.Errorf("revision %d: %s", app.Revision, app.Source)
	}
}
