package backend

import (
	"context"
	"errors"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/cluster/answer"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Where services are reached on a worker is the worker's to say; whoever asks
// hears who does not know.
func TestEntriesAreAskedOfTheWorker(t *testing.T) {
	ctx := context.Background()
	c := clustertest.NewCore(t, bustest.NewMemStore())
	c.M.Workers["w1"] = &state.Worker{WorkerRecord: state.WorkerRecord{Info: wire.WorkerInfo{Name: "w1"}}}
	b := &Backend{Core: c}
	code := func(cluster, name, want string) {
		t.Helper()
		_, err := b.Entries(ctx, cluster, name)
		var p *wire.Problem
		if !errors.As(err, &p) || p.Code != want {
			t.Errorf("%s/%s: %v, want %s", cluster, name, err, want)
		}
	}
	code("fog", "w1", "elsewhere")
	code("edge", "w2", "no-such-worker")
	code("edge", "w1", "worker-away")
	lower := exchange.WorkerSubjects("w1")
	stop, err := c.Local.Subscribe(lower.Ask, func(_ context.Context, m bus.Msg) {
		if err := m.Respond([]byte(`{"v":1,"d":[{"app":"app","service":"web","port":"http","addr":"127.0.0.1:20000"}]}`)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	want := rpc.EntryView{App: "app", Service: "web", Port: "http", Addr: "127.0.0.1:20000"}
	if list, err := b.Entries(ctx, "edge", "w1"); err != nil || len(list) != 1 || list[0] != want {
		t.Errorf("got %v, %v", list, err)
	}
	ask := rpc.Ask{What: "entries", Worker: "w1"}
	got, err := answer.Answer(ctx, c, ask)
	if list, ok := got.([]rpc.EntryView); err != nil || !ok || len(list) != 1 || list[0] != want {
		t.Errorf("a root that is told details gets %v, %v", got, err)
	}
	c.M.Details = false
	if got, err := answer.Answer(ctx, c, ask); err == nil {
		t.Errorf("a root that is not told details gets %v", got)
	}
}
