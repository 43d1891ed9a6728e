package backend

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/answer"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func TestACordonIsStored(t *testing.T) {
	ctx := access.With(context.Background(), access.Who{Name: "admin/ann"})
	store := bustest.NewMemStore()
	c := clustertest.NewCore(t, store)
	rec := state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{Name: "w1"}}
	c.M.Workers["w1"] = state.NewWorker(rec, time.Now())
	b := &Backend{Core: c}
	code := func(err error, want string) {
		t.Helper()
		var p *wire.Problem
		if !errors.As(err, &p) || p.Code != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	_, err := b.CordonWorker(ctx, "fog", "w1", rpc.CordonRequest{})
	code(err, "elsewhere")
	_, err = b.CordonWorker(ctx, "edge", "w2", rpc.CordonRequest{})
	code(err, "no-such-worker")
	for _, id := range []string{rest.CordonCluster.ID, rest.UncordonCluster.ID} {
		code(Referrals[id].Problem(func(string) string { return "edge" }), "elsewhere")
	}
	got, err := b.CordonWorker(ctx, "edge", "w1", rpc.CordonRequest{Reason: "a new disk"})
	if err != nil || got.By != "admin/ann" || got.Why != "a new disk" || got.Drain || got.At.IsZero() {
		t.Fatalf("%+v, %v", got, err)
	}
	if again, err := b.CordonWorker(ctx, "edge", "w1", rpc.CordonRequest{}); err != nil || again != got {
		t.Errorf("again: %+v, %v", again, err)
	}
	drain, err := b.CordonWorker(ctx, "edge", "w1", rpc.CordonRequest{Drain: true})
	if err != nil || !drain.Drain || drain.Why != got.Why {
		t.Errorf("%+v, %v", drain, err)
	}
	if again, err := b.CordonWorker(ctx, "edge", "w1", rpc.CordonRequest{Reason: "another"}); err != nil ||
		!again.Drain || again.Why != "another" {
		t.Errorf("a cordon ended the drain: %+v, %v", again, err)
	}
	// What the worker says about itself leaves it, and so does another process.
	if err := workers.TakeInfo(ctx, c, c.M.Workers["w1"], []byte(`{"v":1,"name":"w1","version":"v9"}`),
		time.Now()); err != nil {
		t.Fatal(err)
	}
	if v := views.Workers(clustertest.NewCore(t, store)); len(v) != 1 || v[0].Cordon == nil ||
		v[0].Cordon.Why != "another" ||
		v[0].Version != "v9" {
		t.Errorf("%+v", v)
	}
	store.FailWrites(errors.New("disk full"))
	code(b.UncordonWorker(ctx, "edge", "w1"), "not-stored")
	if c.M.Workers["w1"].Cordon == nil {
		t.Error("uncordoned without being stored")
	}
	store.FailWrites(nil)
	if err := b.UncordonWorker(ctx, "edge", "w1"); err != nil {
		t.Error(err)
	}
	if v := views.Workers(clustertest.NewCore(t, store)); v[0].Cordon != nil {
		t.Errorf("%+v", v)
	}
}

// The root may ask for a cordon where the cluster shares its details, and says who wants it.
func TestTheRootPassesACordonOn(t *testing.T) {
	ctx, store := t.Context(), bustest.NewMemStore()
	c := clustertest.NewCore(t, store)
	c.M.Workers["w1"] = state.NewWorker(state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{Name: "w1"}},
		time.Now())
	asks := []rpc.Ask{
		{What: rpc.AskCordon, Worker: "w1",
			Cordon: &rpc.CordonAsk{By: "user/ann", CordonRequest: rpc.CordonRequest{Reason: "a disk", Drain: true}}},
		{What: rpc.AskDrain, Worker: "w1"},
		{What: rpc.AskUncordon, Worker: "w1", Cordon: &rpc.CordonAsk{By: "user/ann"}},
	}
	c.M.Details = false
	for _, q := range asks {
		var p *wire.Problem
		if _, err := answer.Answer(ctx, c, q); !errors.As(err, &p) || p.Code != "kept-private" ||
			!strings.Contains(p.Remedy, "--operator edge") {
			t.Errorf("%s of a cluster that keeps its details: %v", q.What, err)
		}
	}
	if c.M.Workers["w1"].Cordon != nil {
		t.Error("it was cordoned")
	}
	c.M.Details = true
	if _, err := answer.Answer(ctx, c, asks[0]); err != nil {
		t.Fatal(err)
	}
	if got := clustertest.NewCore(t, store).M.Workers["w1"].Cordon; got == nil || got.By != "root/user/ann" ||
		got.Why != "a disk" || !got.Drain {
		t.Errorf("stored: %+v", got)
	}
	if v, err := answer.Answer(ctx, c, asks[1]); err != nil || v.(rpc.DrainView).Cordon == nil {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := answer.Answer(ctx, c, asks[2]); err != nil || c.M.Workers["w1"].Cordon != nil {
		t.Errorf("%+v, %v", c.M.Workers["w1"].Cordon, err)
	}
	for _, q := range []rpc.Ask{{What: rpc.AskCordon, Worker: "w1"}, {What: rpc.AskUncordon, Worker: "w1"}} {
		if _, err := answer.Answer(ctx, c, q); err == nil {
			t.Errorf("%+v was answered", q)
		}
	}
}
