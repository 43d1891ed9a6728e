package root

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

func command(cmd string) func(*api.Service) {
	return func(v *api.Service) { v.Command = []string{cmd} }
}

// programs that clusters have been given, by cluster.
func (s *sim) programs(app string) string {
	var out []string
	for _, key := range records.SortedKeys(s.m.shares) {
		if sh := s.m.shares[key]; sh.App == app {
			name, _, _ := strings.Cut(key, ".")
			out = append(out, name+"="+sh.Spec.Command[0])
		}
	}
	return strings.Join(out, " ")
}

// One cluster after the other is given another program, and what fails in the first
// reaches no other.
func TestClustersAreUpdatedOneAfterTheOther(t *testing.T) {
	s := newSim(t, "edge", "fog", "sky")
	s.apply("shop", 6, nil)
	s.ticks(4, time.Second)
	if got := s.programs("shop"); got != "edge=x fog=x sky=x" {
		t.Fatal(got)
	}
	s.apply("shop", 6, command("y"))
	seen := []string{}
	for range 20 {
		s.tick(time.Second)
		if got := s.programs("shop"); len(seen) == 0 || seen[len(seen)-1] != got {
			seen = append(seen, got)
		}
	}
	if got := fmt.Sprint(seen); got != "[edge=y fog=x sky=x edge=y fog=y sky=x edge=y fog=y sky=y]" {
		t.Errorf("%s", got)
	}
	if v := s.m.appView(s.m.apps["shop"]); !v.Holds {
		t.Errorf("%+v", v)
	}
	s.apply("shop", 6, command("bad"))
	s.ticks(20, time.Second)
	if got := s.programs("shop"); got != "edge=bad fog=y sky=y" {
		t.Errorf("%s", got)
	}
	r := s.m.rollout(s.m.apps["shop"], "web")
	if r.Phase != wire.RolloutFailed || r.Why != "cluster edge: web.0: exited with 1" || r.Clusters[1].Phase != wire.RolloutWaiting {
		t.Errorf("%+v", r)
	}
	if v := s.m.appView(s.m.apps["shop"]); v.Holds || v.Services[0].Rollout != wire.RolloutFailed || !strings.Contains(v.Message, "web.0: exited with 1") || !strings.HasPrefix(v.Message, "web: 6 of 6 ready, 0 of them as applied; ") {
		t.Errorf("%+v", v)
	}
	if v := s.m.rolloutView(s.m.apps["shop"]).Services[0]; v.Ready != 6 || v.Updated != 0 || v.Clusters[1].Ready != 2 {
		t.Errorf("%+v", v)
	}
	// Another number needs nobody's turn; another process of the root changes nothing.
	s.restart()
	s.apply("shop", 9, command("bad"))
	s.ticks(5, time.Second)
	if n := s.m.shares["fog.shop.web"].Min + s.m.shares["sky.shop.web"].Min + s.m.shares["edge.shop.web"].Min; n != 9 || s.programs("shop") != "edge=bad fog=y sky=y" {
		t.Errorf("%d: %s", n, s.programs("shop"))
	}
	s.apply("shop", 6, command("y"))
	s.ticks(10, time.Second)
	if got := s.programs("shop"); got != "edge=y fog=y sky=y" {
		t.Errorf("%s", got)
	}
}

// One that is away is not waited for.
func TestAClusterThatIsAwayIsNotWaitedFor(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.apply("shop", 4, nil)
	s.ticks(4, time.Second)
	s.fakes["edge"].linked = false
	s.ticks(20, time.Second)
	s.apply("shop", 4, command("y"))
	s.ticks(5, time.Second)
	if got := s.programs("shop"); got != "edge=y fog=y" {
		t.Error(got)
	}
}

func paused(on bool) func(*wire.Application) {
	return func(a *wire.Application) { a.Holds = map[string]wire.Hold{"web": {Paused: on, By: "ann"}} }
}

// What is paused is given to nobody else.
func TestAPausedRolloutReachesNobodyElse(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.apply("shop", 4, nil)
	s.ticks(4, time.Second)
	for _, on := range []bool{true, false} {
		s.apply("shop", 4, command("y"))
		paused(on)(s.m.apps["shop"])
		s.store(keyApp+"shop", s.m.apps["shop"])
		s.ticks(8, time.Second)
		want := "edge=x fog=x"
		if !on {
			want = "edge=y fog=y"
		}
		if got := s.programs("shop"); got != want || s.m.shares["edge.shop.web"].Hold.Paused != on {
			t.Errorf("paused %v: %s", on, got)
		}
	}
}

// Revisions are kept, and an undo brings one back exactly: the whole of it, or one service.
func TestUndo(t *testing.T) {
	ctx := context.Background()
	store := bus.NewMemStore()
	b := newTestBackend(t, store)
	text := func(web, db string) string {
		return fmt.Sprintf("application: shop # version %s\nservices:\n  web: {command: [%s], replicas: 3}\n  db: {command: [%s]}\n", web, web, db)
	}
	apply := func(web, db string) {
		t.Helper()
		if _, err := b.Apply(ctx, []byte(text(web, db)), false); err != nil {
			t.Fatal(err)
		}
		b.m.apps["shop"].Held = map[string]bool{"web": true, "db": true}
	}
	apply("x1", "y1")
	first := b.m.apps["shop"].Spec
	if _, err := b.Undo(ctx, "shop", wire.RolloutRequest{}); code(err) != "no-earlier-revision" {
		t.Errorf("%v", err)
	}
	apply("x2", "y1")
	apply("x2", "y2")
	r, err := b.Undo(ctx, "shop", wire.RolloutRequest{To: 1, Reason: "slow"})
	app := b.m.apps["shop"]
	if err != nil || r.Revision != 4 || r.Change != "updated" || !records.Same(app.Spec, first) || app.Source != text("x1", "y1") || app.Why != "undo to revision 1: slow" {
		t.Fatalf("%+v %v: %+v", r, err, app)
	}
	// One service: what changed it last, with the other as it is.
	if r, err = b.Undo(ctx, "shop", wire.RolloutRequest{Service: "web"}); err != nil || r.Revision != 5 {
		t.Fatalf("%+v %v", r, err)
	}
	app = b.m.apps["shop"]
	if app.Spec.Services["web"].Command[0] != "x2" || app.Spec.Services["db"].Command[0] != "y1" {
		t.Errorf("%s", app.Source)
	}
	if spec, _, err := descriptor.Parse("", []byte(app.Source)); err != nil || !records.Same(spec, app.Spec) {
		t.Errorf("%v: %s", err, app.Source)
	}
	for q, want := range map[wire.RolloutRequest]string{{To: 77}: "no-such-revision", {Service: "nope"}: "no-such-service", {Service: "nope", To: 1}: "no-such-service"} {
		if _, err := b.Undo(ctx, "shop", q); code(err) != want {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if r, err := b.Undo(ctx, "shop", wire.RolloutRequest{To: 5}); err != nil || r.Change != "unchanged" {
		t.Errorf("%+v %v", r, err)
	}
	// It is durable, bounded, and goes with the application.
	for n := range 20 {
		apply(fmt.Sprint("z", n), "y1")
	}
	b = newTestBackend(t, store)
	list, err := b.Revisions(ctx, "shop")
	if err != nil || len(list) != wire.MaxRevisions+1 || !list[0].Current || list[0].Revision != 25 || list[1].Revision != 24 || list[10].Revision != 15 {
		t.Fatalf("%v %+v", err, list)
	}
	if got := list[1].Changed; len(got) != 1 || got[0] != "web: command" {
		t.Errorf("%q", got)
	}
	if r, err := b.Revision(ctx, "shop", 20); err != nil || r.Descriptor != text("z14", "y1") {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := b.Revision(ctx, "shop", 3); code(err) != "no-such-revision" {
		t.Errorf("%v", err)
	}
	if err := b.Delete(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.pass(ctx, time.Now(), true); err != nil {
		t.Fatal(err)
	}
	left, err := store.List(ctx, keyRevision)
	if err != nil || len(left) > 0 || len(b.m.history["shop"]) > 0 {
		t.Errorf("%d revisions are left: %v", len(left), err)
	}
}

// Where the descriptor asks for it, what has failed is undone by itself, once.
func TestARolloutThatFailedIsUndone(t *testing.T) {
	ctx := context.Background()
	b := newTestBackend(t, bus.NewMemStore())
	text := "application: shop\nservices:\n  web: {command: [%s], rollout: {on_failure: rollback}}\n"
	for _, cmd := range []string{"good", "bad"} {
		if _, err := b.Apply(ctx, fmt.Appendf(nil, text, cmd), false); err != nil {
			t.Fatal(err)
		}
		b.m.apps["shop"].Held = map[string]bool{"web": cmd == "good"}
	}
	now := time.Now()
	c := newCluster(clusterRecord{V: wire.Version, Name: "edge"}, now)
	c.everHeard = true
	b.m.clusters["edge"] = c
	fails := func() {
		spec := b.m.apps["shop"].Spec.Services["web"]
		b.m.shares["edge.shop.web"] = &wire.Share{V: wire.Version, App: "shop", Service: "web", Revision: b.m.apps["shop"].Revision, Min: 1, Max: 1, Spec: spec}
		c.rollouts = map[string]*wire.RolloutReport{"shop.web": {App: "shop", Service: "web", Program: spec.ProgramID(), Phase: wire.RolloutFailed, Why: "web.0: exited with 1"}}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.rollBack(ctx, now)
	}
	fails()
	app := b.m.apps["shop"]
	if app.Revision != 3 || app.Spec.Services["web"].Command[0] != "good" || app.Why != "undo of web to revision 1: its rollout failed, cluster edge: web.0: exited with 1" || app.By != "verge" {
		t.Fatalf("%+v", app)
	}
	fails() // the one that was brought back too
	if app := b.m.apps["shop"]; app.Revision != 3 {
		t.Errorf("revision %d: %s", app.Revision, app.Source)
	}
}
