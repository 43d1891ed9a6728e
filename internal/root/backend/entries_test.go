package backend_test

import (
	"context"
	"errors"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// The root passes the question for a worker's entries on to its cluster, unless
// that keeps its inside to itself.
func TestEntriesAreAskedOfTheCluster(t *testing.T) {
	ctx := context.Background()
	s := roottest.NewSim(t, "edge", "fog", "mute")
	s.Model.Clusters["edge"].Aggregate = &wire.Aggregate{Details: true}
	s.Model.Clusters["fog"].Aggregate = &wire.Aggregate{}
	s.Model.Clusters["mute"].Aggregate = nil
	b, conn := roottest.NewLinkedBackend(t, s.Model)
	code := func(cluster, want string) {
		t.Helper()
		_, err := b.Entries(ctx, cluster, "w1")
		var p *wire.Problem
		if !errors.As(err, &p) || p.Code != want {
			t.Errorf("%s: %v, want %s", cluster, err, want)
		}
	}
	code("nowhere", "no-such-cluster")
	code("mute", "cluster-away")
	code("fog", "kept-private")
	code("edge", "cluster-away")
	stop, err := conn.Subscribe(exchange.ClusterSubjects().Ask, func(_ context.Context, m bus.Msg) {
		if string(m.Data) != `{"w":"entries","n":"w1"}` {
			t.Errorf("the cluster was asked %s", m.Data)
		}
		if err := m.Respond([]byte(`{"v":1,"d":[{"app":"app","service":"web","port":"http","addr":"127.0.0.1:20000"}]}`)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	list, err := b.Entries(ctx, "edge", "w1")
	if err != nil || len(list) != 1 || list[0] != (rpc.EntryView{App: "app", Service: "web", Port: "http",
		Addr: "127.0.0.1:20000"}) {
		t.Errorf("got %v, %v", list, err)
	}
}
