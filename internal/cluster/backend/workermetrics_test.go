package backend

import (
	"errors"
	"testing"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/exchange/exchangetest"
	"github.com/verge-edge/verge/internal/cluster/answer"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// A worker's figures are asked for one by one and handed on: packed to the root,
// as text to who scrapes here; what a worker makes up harms nobody.
func TestFiguresOfWorkers(t *testing.T) {
	c := clustertest.NewCore(t, bustest.NewMemStore())
	c.M.Workers["w1"] = &state.Worker{WorkerRecord: state.WorkerRecord{Info: wire.WorkerInfo{Name: "w1"}}}
	b := &Backend{Core: c}
	packed, err := obs.Pack([]byte("verge_link_up 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	page := rpc.MetricsPage{V: wire.Version, Text: packed}
	exchangetest.OnAsk(t, c.Local, exchange.WorkerSubjects("w1"), func(_ rpc.Ask, sent string) (any, *wire.Problem) {
		if sent != `{"w":"metrics","n":"w1"}` {
			t.Errorf("the worker was asked %s", sent)
		}
		return page, nil
	})
	if text, err := b.WorkerMetrics(t.Context(), "edge", "w1"); err != nil || string(text) != "verge_link_up 1\n" {
		t.Errorf("%q, %v", text, err)
	}
	up, err := answer.Answer(t.Context(), c, rpc.Ask{What: rpc.AskMetrics, Worker: "w1"})
	if got, ok := up.(rpc.MetricsPage); err != nil || !ok || string(got.Text) != string(packed) {
		t.Errorf("the root is told %v, %v", up, err)
	}
	for _, q := range []struct{ cluster, worker, want string }{{"edge", "w2", "no-such-worker"},
		{"fog", "w1", "elsewhere"}} {
		_, err := b.WorkerMetrics(t.Context(), q.cluster, q.worker)
		if p := new(wire.Problem); !errors.As(err, &p) || p.Code != q.want {
			t.Errorf("%+v: %v", q, err)
		}
	}
	c.M.Details = false
	_, err = answer.Answer(t.Context(), c, rpc.Ask{What: rpc.AskMetrics, Worker: "w1"})
	if p := new(wire.Problem); !errors.As(err, &p) || p.Code != "kept-private" {
		t.Errorf("a cluster that keeps to itself says %v", err)
	}
	page.Text = []byte("nonsense")
	if _, err := b.WorkerMetrics(t.Context(), "edge", "w1"); err == nil {
		t.Error("nonsense was handed on")
	}
	page.V = wire.Version + 1
	if _, err := b.WorkerMetrics(t.Context(), "edge", "w1"); err == nil {
		t.Error("a page of the future was handed on")
	}
}
