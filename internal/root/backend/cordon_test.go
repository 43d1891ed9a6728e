package backend_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/backend"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/views"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func TestACordonIsStored(t *testing.T) {
	ctx := context.Background()
	store := bustest.NewMemStore()
	b := roottest.NewBackend(t, store)
	if _, err := b.CordonCluster(ctx, "edge", rpc.CordonRequest{}); roottest.Code(err) != "no-such-cluster" {
		t.Error(err)
	}
	if _, err := b.CordonWorker(ctx, "edge", "w1", rpc.CordonRequest{}); roottest.Code(err) != "no-such-cluster" {
		t.Error(err)
	}
	rec := state.ClusterRecord{V: wire.Version, Name: "edge"}
	data, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(ctx, state.KeyCluster+"edge", data); err != nil {
		t.Fatal(err)
	}
	b.M.Clusters["edge"] = state.NewCluster(rec, time.Now())
	if _, err := b.CordonCluster(ctx, "edge", rpc.CordonRequest{Reason: "moving house"}); err != nil {
		t.Fatal(err)
	}
	if v := views.Clusters(roottest.NewBackend(t, store).Core); len(v) != 1 || v[0].Cordon == nil ||
		v[0].Cordon.Why != "moving house" {
		t.Errorf("%+v", v)
	}
	if err := b.UncordonCluster(ctx, "edge"); err != nil {
		t.Fatal(err)
	}
	if v := views.Clusters(roottest.NewBackend(t, store).Core); v[0].Cordon != nil {
		t.Errorf("%+v", v)
	}
}

// What is done with a worker is passed on to its cluster, with the name of who asks, where
// that shares its details. Else the answer says how to get a context of it.
func TestCordonsOfWorkersArePassedOn(t *testing.T) {
	ctx := access.With(t.Context(), access.Who{Name: "user/ann"})
	s := roottest.NewSim(t, "edge", "fog")
	s.Model.Clusters["edge"].Aggregate = &wire.Aggregate{Details: true}
	s.Model.Clusters["fog"].Aggregate = &wire.Aggregate{}
	b, conn := roottest.NewLinkedBackend(t, s.Model)
	if _, err := b.CordonWorker(ctx, "edge", "w1", rpc.CordonRequest{}); roottest.Code(err) != "cluster-away" ||
		strings.Contains(err.Error(), "subject") {
		t.Errorf("nobody answers: %v", err)
	}
	if err := core.Ask(ctx, b.Core, "edge", rpc.Ask{What: "workers"}, new([]rpc.WorkerView)); !errors.Is(err,
		bus.ErrNoResponder) || err.Error() != "cluster edge does not answer" {
		t.Errorf("what people read of a cluster that is away: %v", err)
	}
	asked, reply := "", `{"v":1,"d":{"by":"root/user/ann","why":"a disk"}}`
	stop, err := conn.Subscribe(exchange.ClusterSubjects().Ask, func(_ context.Context, m bus.Msg) {
		asked = string(m.Data)
		if err := m.Respond([]byte(reply)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	wantAsked := func(want string) {
		t.Helper()
		if asked != want {
			t.Errorf("the cluster was asked %s, want %s", asked, want)
		}
	}
	if got, err := b.CordonWorker(ctx, "edge", "w1", rpc.CordonRequest{Reason: "a disk", Drain: true}); err != nil ||
		got.By != "root/user/ann" || got.Why != "a disk" {
		t.Errorf("%+v, %v", got, err)
	}
	wantAsked(`{"w":"cordon","n":"w1","c":{"by":"user/ann","reason":"a disk","drain":true}}`)
	if err := b.UncordonWorker(ctx, "edge", "w1"); err != nil {
		t.Error(err)
	}
	wantAsked(`{"w":"uncordon","n":"w1","c":{"by":"user/ann"}}`)
	reply = `{"v":1,"d":{"left":[{"instance":"app.web.0","state":"moving"}],"source":"cluster/edge"}}`
	if v, err := b.WorkerDrain(ctx, "edge", "w1"); err != nil || len(v.Left) != 1 || v.Source != "cluster/edge" {
		t.Errorf("%+v, %v", v, err)
	}
	wantAsked(`{"w":"drain","n":"w1"}`)
	asked = ""
	_, err = b.CordonWorker(ctx, "fog", "w1", rpc.CordonRequest{})
	if roottest.Code(err) != "kept-private" || asked != "" ||
		!strings.Contains(err.Error(), "verge user create NAME --operator fog > FILE") {
		t.Errorf("a cluster that keeps its details: %v, asked %s", err, asked)
	}
	if err := backend.Referrals[rest.RemoveWorker.ID].Problem(func(string) string { return "fog" }); roottest.Code(err) != "elsewhere" || !strings.Contains(err.Error(), "verge user create NAME --operator fog > FILE") {
		t.Errorf("what is not passed on: %v", err)
	}
}
