package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

func TestACordonedWorkerTakesNothingNew(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.share("web", 2, nil)
	s.ticks(3, time.Second)
	s.cordon("w1", &wire.Cordon{At: s.now})
	if a := s.m.aggregate(wire.Rev{}, nil); a.Workers != 1 || a.Cordoned != 1 || a.Capacity.CPU != 1000 || a.CPU.Sum != 900 {
		t.Errorf("the root is told %+v", a)
	}
	s.share("web", 6, nil)
	s.ticks(3, time.Second)
	if a, b := len(s.fakes["w1"].has), len(s.fakes["w2"].has); a != 1 || b != 5 {
		t.Fatalf("%d on the cordoned worker, %d on the other\n%s", a, b, s.dump())
	}
	// What runs there is updated there, also by another process.
	s.restart()
	s.tick(time.Second)
	s.again("web", -1)
	s.ticks(10, time.Second)
	for o := range 6 {
		if i := s.inst(fmt.Sprintf("app.web.%d", o)); i.Incarnation != 2 || !i.Ready {
			t.Errorf("%s: incarnation %d", i.ID, i.Incarnation)
		}
	}
	// What fails there for good goes elsewhere.
	s.fakes["w1"].broken["web"] = "exit"
	s.again("web", -1)
	s.ticks(10, time.Second)
	if n := len(s.fakes["w2"].has); n != 6 {
		t.Errorf("%d on the other worker\n%s", n, s.dump())
	}
	s.cordon("w2", &wire.Cordon{At: s.now})
	if a := s.m.aggregate(wire.Rev{}, nil); a.Workers != 0 || a.Cordoned != 2 {
		t.Errorf("the root is told %+v", a)
	}
}

func TestACordonIsStored(t *testing.T) {
	ctx := access.With(context.Background(), access.Who{Name: "admin/ann"})
	store := bus.NewMemStore()
	c := newTestCore(t, store)
	rec := state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{Name: "w1"}}
	c.m.Workers["w1"] = state.NewWorker(rec, time.Now())
	b := backend{&Cluster{core: c}}
	code := func(err error, want string) {
		t.Helper()
		var p *wire.Problem
		if !errors.As(err, &p) || p.Code != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	_, err := b.CordonWorker(ctx, "fog", "w1", wire.CordonRequest{})
	code(err, "elsewhere")
	_, err = b.CordonWorker(ctx, "edge", "w2", wire.CordonRequest{})
	code(err, "no-such-worker")
	for _, id := range []string{rest.CordonCluster.ID, rest.UncordonCluster.ID} {
		code(referrals[id].Problem(func(string) string { return "edge" }), "elsewhere")
	}
	got, err := b.CordonWorker(ctx, "edge", "w1", wire.CordonRequest{Reason: "a new disk"})
	if err != nil || got.By != "admin/ann" || got.Why != "a new disk" || got.Drain || got.At.IsZero() {
		t.Fatalf("%+v, %v", got, err)
	}
	if again, err := b.CordonWorker(ctx, "edge", "w1", wire.CordonRequest{}); err != nil || again != got {
		t.Errorf("again: %+v, %v", again, err)
	}
	drain, err := b.CordonWorker(ctx, "edge", "w1", wire.CordonRequest{Drain: true})
	if err != nil || !drain.Drain || drain.Why != got.Why {
		t.Errorf("%+v, %v", drain, err)
	}
	if again, err := b.CordonWorker(ctx, "edge", "w1", wire.CordonRequest{Reason: "another"}); err != nil || !again.Drain || again.Why != "another" {
		t.Errorf("a cordon ended the drain: %+v, %v", again, err)
	}
	// What the worker says about itself leaves it, and so does another process.
	if err := c.takeInfo(ctx, c.m.Workers["w1"], []byte(`{"v":1,"name":"w1","version":"v9"}`), time.Now()); err != nil {
		t.Fatal(err)
	}
	if v := newTestCore(t, store).workers(); len(v) != 1 || v[0].Cordon == nil || v[0].Cordon.Why != "another" || v[0].Version != "v9" {
		t.Errorf("%+v", v)
	}
	store.FailWrites(errors.New("disk full"))
	code(b.UncordonWorker(ctx, "edge", "w1"), "not-stored")
	if c.m.Workers["w1"].Cordon == nil {
		t.Error("uncordoned without being stored")
	}
	store.FailWrites(nil)
	if err := b.UncordonWorker(ctx, "edge", "w1"); err != nil {
		t.Error(err)
	}
	if v := newTestCore(t, store).workers(); v[0].Cordon != nil {
		t.Errorf("%+v", v)
	}
}

// The root may ask for a cordon where the cluster shares its details, and says who wants it.
func TestTheRootPassesACordonOn(t *testing.T) {
	ctx, store := t.Context(), bus.NewMemStore()
	c := newTestCore(t, store)
	c.m.Workers["w1"] = state.NewWorker(state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{Name: "w1"}}, time.Now())
	asks := []wire.Ask{
		{What: wire.AskCordon, Worker: "w1", Cordon: &wire.CordonAsk{By: "user/ann", CordonRequest: wire.CordonRequest{Reason: "a disk", Drain: true}}},
		{What: wire.AskDrain, Worker: "w1"},
		{What: wire.AskUncordon, Worker: "w1", Cordon: &wire.CordonAsk{By: "user/ann"}},
	}
	c.m.Details = false
	for _, q := range asks {
		var p *wire.Problem
		if _, err := c.answer(ctx, q); !errors.As(err, &p) || p.Code != "kept-private" || !strings.Contains(p.Remedy, "--operator edge") {
			t.Errorf("%s of a cluster that keeps its details: %v", q.What, err)
		}
	}
	if c.m.Workers["w1"].Cordon != nil {
		t.Error("it was cordoned")
	}
	c.m.Details = true
	if _, err := c.answer(ctx, asks[0]); err != nil {
		t.Fatal(err)
	}
	if got := newTestCore(t, store).m.Workers["w1"].Cordon; got == nil || got.By != "root/user/ann" || got.Why != "a disk" || !got.Drain {
		t.Errorf("stored: %+v", got)
	}
	if v, err := c.answer(ctx, asks[1]); err != nil || v.(wire.DrainView).Cordon == nil {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := c.answer(ctx, asks[2]); err != nil || c.m.Workers["w1"].Cordon != nil {
		t.Errorf("%+v, %v", c.m.Workers["w1"].Cordon, err)
	}
	for _, q := range []wire.Ask{{What: wire.AskCordon, Worker: "w1"}, {What: wire.AskUncordon, Worker: "w1"}} {
		if _, err := c.answer(ctx, q); err == nil {
			t.Errorf("%+v was answered", q)
		}
	}
}
