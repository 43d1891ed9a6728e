package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
)

// A worker's figures are asked for one by one and handed on: packed to the root,
// as text to who scrapes here; what a worker makes up harms nobody.
func TestFiguresOfWorkers(t *testing.T) {
	c := newTestCore(t, bus.NewMemStore())
	c.m.Workers["w1"] = &state.Worker{WorkerRecord: state.WorkerRecord{Info: wire.WorkerInfo{Name: "w1"}}}
	b := backend{&Cluster{core: c}}
	packed, err := obs.Pack([]byte("verge_link_up 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	page := wire.MetricsPage{V: wire.Version, Text: packed}
	stop, err := c.local.Subscribe(exchange.WorkerSubjects("w1").Ask, func(_ context.Context, m bus.Msg) {
		if string(m.Data) != `{"w":"metrics","n":"w1"}` {
			t.Errorf("the worker was asked %s", m.Data)
		}
		data, err := json.Marshal(page)
		if err == nil {
			data, err = json.Marshal(wire.Answer{V: wire.Version, Data: data})
		}
		if err == nil {
			err = m.Respond(data)
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if text, err := b.WorkerMetrics(t.Context(), "edge", "w1"); err != nil || string(text) != "verge_link_up 1\n" {
		t.Errorf("%q, %v", text, err)
	}
	up, err := c.answer(t.Context(), wire.Ask{What: wire.AskMetrics, Worker: "w1"})
	if got, ok := up.(wire.MetricsPage); err != nil || !ok || string(got.Text) != string(packed) {
		t.Errorf("the root is told %v, %v", up, err)
	}
	for _, q := range []struct{ cluster, worker, want string }{{"edge", "w2", "no-such-worker"}, {"fog", "w1", "elsewhere"}} {
		_, err := b.WorkerMetrics(t.Context(), q.cluster, q.worker)
		if p := new(wire.Problem); !errors.As(err, &p) || p.Code != q.want {
			t.Errorf("%+v: %v", q, err)
		}
	}
	c.m.Details = false
	_, err = c.answer(t.Context(), wire.Ask{What: wire.AskMetrics, Worker: "w1"})
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
