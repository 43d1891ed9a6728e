package root

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
)

// The figures of a worker come from its cluster, unless that keeps its inside to
// itself.
func TestFiguresOfWorkers(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.m.clusters["edge"].agg = &wire.Aggregate{Details: true}
	s.m.clusters["fog"].agg = &wire.Aggregate{}
	conn := bus.NewMem().Conn("cluster", bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}})
	defer conn.Close()
	b := backend{&Root{core: &core{m: s.m, link: func(string) (bus.Conn, error) { return conn, nil }}}}
	packed, err := obs.Pack([]byte("verge_link_up 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(wire.MetricsPage{V: wire.Version, Text: packed})
	if err != nil {
		t.Fatal(err)
	}
	answer := wire.Answer{V: wire.Version, Data: data}
	stop, err := conn.Subscribe(exchange.ClusterSubjects().Ask, func(_ context.Context, m bus.Msg) {
		if string(m.Data) != `{"w":"metrics","n":"w1"}` {
			t.Errorf("the cluster was asked %s", m.Data)
		}
		data, err := json.Marshal(answer)
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
	answer = wire.Answer{V: wire.Version, Error: "x", Problem: wire.Problemf(503, "worker-away", "", "x", "y")}
	for cluster, want := range map[string]string{"edge": "worker-away", "fog": "kept-private", "far": "no-such-cluster"} {
		_, err := b.WorkerMetrics(t.Context(), cluster, "w1")
		if p := new(wire.Problem); !errors.As(err, &p) || p.Code != want {
			t.Errorf("%s: %v, want %s", cluster, err, want)
		}
	}
}
