package backend_test

import (
	"errors"
	"testing"

	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/exchange/exchangetest"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// The figures of a worker come from its cluster, unless that keeps its inside to
// itself.
func TestFiguresOfWorkers(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Model.Clusters["edge"].Aggregate = &wire.Aggregate{Details: true}
	s.Model.Clusters["fog"].Aggregate = &wire.Aggregate{}
	b, conn := roottest.NewLinkedBackend(t, s.Model)
	packed, err := obs.Pack([]byte("verge_link_up 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	var away *wire.Problem
	exchangetest.OnAsk(t, conn, exchange.ClusterSubjects(), func(_ rpc.Ask, sent string) (any, *wire.Problem) {
		if sent != `{"w":"metrics","n":"w1"}` {
			t.Errorf("the cluster was asked %s", sent)
		}
		return rpc.MetricsPage{V: wire.Version, Text: packed}, away
	})
	if text, err := b.WorkerMetrics(t.Context(), "edge", "w1"); err != nil || string(text) != "verge_link_up 1\n" {
		t.Errorf("%q, %v", text, err)
	}
	away = wire.Problemf(503, "worker-away", "", "x", "y")
	for cluster, want := range map[string]string{"edge": "worker-away", "fog": "kept-private",
		"far": "no-such-cluster"} {
		_, err := b.WorkerMetrics(t.Context(), cluster, "w1")
		if p := new(wire.Problem); !errors.As(err, &p) || p.Code != want {
			t.Errorf("%s: %v, want %s", cluster, err, want)
		}
	}
}
