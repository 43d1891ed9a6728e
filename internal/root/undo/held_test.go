package undo_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/root/backend"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/revisions"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/undo"
	"github.com/verge-edge/verge/internal/wire"
)

// reporting is a root with one cluster that says how an application with one instance does.
type reporting struct {
	backend.Backend
	t     *testing.T
	store *bustest.MemStore
	now   time.Time
}

const oneWeb = "application: shop\nservices:\n  web: {command: [%s], rollout: {on_failure: %s}}\n"

func newReporting(t *testing.T) *reporting {
	r := &reporting{t: t, store: bustest.NewMemStore(), now: time.Now()}
	r.Backend = roottest.NewBackend(t, r.store)
	cl := state.NewCluster(state.ClusterRecord{V: wire.Version, Name: "edge"}, r.now)
	cl.EverHeard = true
	r.M.Clusters["edge"] = cl
	return r
}

func (r *reporting) apply(cmd, onFailure string) {
	r.t.Helper()
	if _, err := r.Apply(r.t.Context(), fmt.Appendf(nil, oneWeb, cmd, onFailure), false); err != nil {
		r.t.Fatal(err)
	}
	r.says(func(i *wire.Instance) { i.Ready = false })
}

// says is what the cluster reports of the instance now.
func (r *reporting) says(change func(*wire.Instance)) {
	r.t.Helper()
	i := wire.Instance{V: wire.Version, ID: "shop.web.0", App: "shop", Service: "web",
		Revision: r.M.Apps["shop"].Revision, Cluster: "edge", State: wire.Running,
		Conditions: wire.Conditions{Ready: true}}
	change(&i)
	r.M.Insts[i.ID] = &wire.Instance{V: wire.Version, ID: i.ID, App: "shop", Service: "web", Cluster: "edge",
		State: wire.ClusterScheduled}
	r.M.Clusters["edge"].Seen[i.ID] = &wire.Reported{Instance: i}
	r.M.Bind(r.M.DB)
	r.note()
}

func (r *reporting) note() {
	core.Do(r.Core, func(*state.Model) {
		undo.NoteHeld(r.t.Context(), r.Core, r.now)
	})
}

// holds lets what was applied last hold, for d.
func (r *reporting) holds(d time.Duration) {
	r.t.Helper()
	r.says(func(*wire.Instance) {})
	r.now = r.now.Add(d)
	r.note()
}

// crashes lets it fail after it was ready for a moment.
func (r *reporting) crashes() {
	r.t.Helper()
	r.holds(time.Second)
	r.says(func(i *wire.Instance) { i.LastExit = &wire.Exit{Code: 3, At: time.Now()} })
}

func (r *reporting) undo(service string) (apiv1.ApplyResult, error) {
	return r.Undo(r.t.Context(), "shop", apiv1.RolloutRequest{Service: service})
}

// An undo goes to the last revision that held: not to the one before where that is broken,
// nor to what is the same as now.
func TestUndoGoesToWhatHeld(t *testing.T) {
	for _, service := range []string{"", "web"} {
		r := newReporting(t)
		r.apply("good", "stop")
		r.holds(revisions.HeldAfter)
		r.says(func(i *wire.Instance) { i.Ready = false }) // its machine is away when the next one comes
		r.apply("unready", "stop")
		r.apply("crashes", "stop")
		r.crashes()
		r.apply("broken", "stop")
		if res, err := r.undo(service); err != nil || res.Undo != 1 ||
			r.M.Apps["shop"].Spec.Services["web"].Command[0] != "good" {
			t.Fatalf("%q: %+v, %v", service, res, err)
		}
		// What it was brought back to is not an earlier one.
		if _, err := r.undo(service); roottest.Code(err) != "no-revision-held" {
			t.Errorf("%q: nothing else held: %v", service, err)
		}
		// One that holds, though not for long, when the next one comes.
		r.apply("short", "stop")
		r.holds(time.Second)
		r.apply("broken", "stop")
		if res, err := r.undo(service); err != nil || res.Undo != 6 {
			t.Errorf("%q: %+v, %v", service, res, err)
		}
		// It is known to another process of the root.
		again := roottest.NewBackend(t, r.store)
		list, err := again.Revisions(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		var held []string
		for k := range list {
			if list[k].HasHeld("") {
				held = append(held, fmt.Sprint(list[k].Revision))
			}
		}
		if got := strings.Join(held, " "); got != "6 1" {
			t.Errorf("%q: revisions that held: %s", service, got)
		}
	}
}

// Of revisions that a version before this one kept nobody knows it: the one before is
// taken, as it was then.
func TestUndoOfOlderRevisions(t *testing.T) {
	r := newReporting(t)
	r.apply("x1", "stop")
	r.M.Apps["shop"].Held = nil
	r.apply("x2", "stop")
	if res, err := r.undo(""); err != nil || res.Undo != 1 {
		t.Errorf("%+v, %v", res, err)
	}
}

// counting is a store that counts what is asked of it.
type counting struct {
	bus.Store
	commits, gets int
}

func (s *counting) Commit(ctx context.Context, ops ...bus.Op) (uint64, error) {
	s.commits++
	return s.Store.Commit(ctx, ops...)
}

func (s *counting) Get(ctx context.Context, key string) (bus.Entry, error) {
	s.gets++
	return s.Store.Get(ctx, key)
}

// That many applications hold is written at once, and what has held is not looked at again.
func TestWhatHoldsIsNotedAtOnce(t *testing.T) {
	r := newReporting(t)
	const apps = 100
	for n := range apps {
		name := fmt.Sprintf("app%d", n)
		if _, err := r.Apply(t.Context(),
			fmt.Appendf(nil, "application: %s\nservices:\n  web: {command: [x]}\n", name), false); err != nil {
			t.Fatal(err)
		}
		i := wire.Instance{V: wire.Version, ID: name + ".web.0", App: name, Service: "web", Revision: 1,
			Cluster: "edge", State: wire.Running, Conditions: wire.Conditions{Ready: true}}
		r.M.Insts[i.ID] = &wire.Instance{V: wire.Version, ID: i.ID, App: name, Service: "web", Cluster: "edge",
			State: wire.ClusterScheduled}
		r.M.Clusters["edge"].Seen[i.ID] = &wire.Reported{Instance: i}
	}
	r.M.Bind(r.M.DB)
	store := &counting{Store: r.Backend.RecordStore}
	r.Backend.RecordStore, r.Backend.Keeper.Store = store, store
	r.note()
	r.now = r.now.Add(revisions.HeldAfter)
	r.note()
	for name, app := range r.M.Apps {
		if !app.Held["web"] {
			t.Fatalf("it is not noted that %s holds", name)
		}
	}
	if store.commits > 2 {
		t.Errorf("%d commits for %d applications", store.commits, apps)
	}
	if n := testing.AllocsPerRun(5, r.note); n > apps/2 {
		t.Errorf("%v allocations where nothing is to be noted", n)
	}
}

// What has failed is brought back to what held, too, and stays where nothing did.
func TestARollbackGoesToWhatHeld(t *testing.T) {
	r := newReporting(t)
	fails := func() {
		app := r.M.Apps["shop"]
		spec := app.Spec.Services["web"]
		r.M.Shares["edge.shop.web"] = &wire.Share{V: wire.Version, App: "shop", Service: "web",
			Revision: app.Revision, Min: 1, Max: 1, Spec: spec}
		r.M.Clusters["edge"].Rollouts = map[string]*wire.RolloutReport{"shop.web": {App: "shop", Service: "web",
			Program: spec.ProgramID(), Phase: wire.RolloutFailed, Why: "web.0: exited with 1"}}
		core.Do(r.Core, func(*state.Model) {
			undo.RollBack(t.Context(), r.Core, r.now)
		})
	}
	r.apply("bad1", "rollback")
	r.apply("bad2", "rollback")
	if fails(); r.M.Apps["shop"].Revision != 2 {
		t.Fatalf("back to what never held: %+v", r.M.Apps["shop"])
	}
	store := &counting{Store: r.Backend.RecordStore}
	r.Backend.RecordStore, r.Backend.Keeper.Store = store, store
	if fails(); store.gets != 0 {
		t.Errorf("each pass reads %d revisions again", store.gets)
	}
	r.apply("good", "rollback")
	r.holds(revisions.HeldAfter)
	r.apply("bad3", "stop")
	r.apply("bad4", "rollback")
	fails()
	if app := r.M.Apps["shop"]; app.Revision != 6 || app.Spec.Services["web"].Command[0] != "good" {
		t.Errorf("%+v", app)
	}
}
