package root

import (
	"context"
	"errors"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/wire"
)

// The root passes the question for a worker's entries on to its cluster, unless
// that keeps its inside to itself.
func TestEntriesAreAskedOfTheCluster(t *testing.T) {
	ctx := context.Background()
	s := newSim(t, "edge", "fog", "mute")
	s.m.clusters["edge"].agg = &wire.Aggregate{Details: true}
	s.m.clusters["fog"].agg = &wire.Aggregate{}
	s.m.clusters["mute"].agg = nil
	all := bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
	conn := bus.NewMem().Conn("cluster", all)
	defer conn.Close()
	b := backend{&Root{core: &core{m: s.m, link: func(string) (bus.Conn, error) { return conn, nil }}}}
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
	if err != nil || len(list) != 1 || list[0] != (wire.EntryView{App: "app", Service: "web", Port: "http", Addr: "127.0.0.1:20000"}) {
		t.Errorf("got %v, %v", list, err)
	}
}
