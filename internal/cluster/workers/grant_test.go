package workers_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/wire"
)

// A worker that was a gateway before there were grants stays one, whatever becomes of
// its flags later, and one that was none does not become one by its own word.
func TestGatewaysOfBeforeGrantsKeepThem(t *testing.T) {
	store := bustest.NewMemStore()
	record := func(name, gateway string, published *wire.GatewayInfo) {
		data, err := json.Marshal(state.WorkerRecord{V: wire.Version,
			Info: wire.WorkerInfo{V: wire.Version, Name: name, Gateway: gateway, Published: published}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Put(t.Context(), state.KeyWorker+name, data); err != nil {
			t.Fatal(err)
		}
	}
	record("old", ":8480", &wire.GatewayInfo{TLS: ":8443"})
	record("plain", ":8480", nil)
	record("none", "", nil)
	c := clustertest.NewCore(t, store)
	want := map[string]bool{"old": true, "plain": true, "none": false}
	check := func(when string, c *core.Core) {
		t.Helper()
		for name, may := range want {
			if got := c.M.Workers[name].Gateway.May(); got != may {
				t.Errorf("%s: %s may be a gateway: %v", when, name, got)
			}
		}
	}
	check("first", c)
	// Each says something else about itself, which writes its record.
	clustertest.SendReport(t, c, "old", wire.Rev{}, 1, wire.WorkerInfo{V: wire.Version})
	clustertest.SendReport(t, c, "plain", wire.Rev{}, 1, wire.WorkerInfo{V: wire.Version})
	r := clustertest.SendReport(t, c, "none", wire.Rev{}, 1,
		wire.WorkerInfo{V: wire.Version, Gateway: ":8480", Published: &wire.GatewayInfo{TLS: ":8443"}})
	if !r.NoGateway {
		t.Error("a worker that may not be a gateway is not told so")
	}
	check("started again", clustertest.NewCore(t, store))
}

// A grant says who gave it and when, is stored before it is acknowledged, and asking
// again changes nothing.
func TestGrant(t *testing.T) {
	store := bustest.NewMemStore()
	c := clustertest.NewCore(t, store)
	c.M.Workers["w1"] = state.NewWorker(state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{Name: "w1"}},
		time.Now())
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	info := wire.WorkerInfo{V: wire.Version, Published: &wire.GatewayInfo{TLS: ":8443"}}
	if r := clustertest.SendReport(t, c, "w1", wire.Rev{}, 1, info); !r.NoGateway {
		t.Error("it is not told that it may not")
	}
	for _, at := range []time.Time{now, now.Add(time.Hour)} {
		g, err := workers.Grant(t.Context(), c, "w1", wire.GatewayGrant{Allowed: true}, "admin/ann", at)
		if err != nil || !g.Allowed || g.By != "admin/ann" || !g.At.Equal(now) {
			t.Fatalf("%+v, %v", g, err)
		}
	}
	if len(views.Workers(c)) != 1 || views.Workers(c)[0].GatewayGrant.By != "admin/ann" {
		t.Errorf("%+v", views.Workers(c))
	}
	if r := clustertest.SendReport(t, c, "w1", wire.Rev{}, 2, info); r.NoGateway {
		t.Error("it is told that it may not")
	}
	if !clustertest.NewCore(t, store).M.Workers["w1"].Gateway.May() {
		t.Error("the grant is not stored")
	}
	var p *wire.Problem
	if _, err := workers.Grant(t.Context(), c, "w9", wire.GatewayGrant{Allowed: true}, "", now); !errors.As(err, &p) ||
		p.Code != "no-such-worker" {
		t.Errorf("%v", err)
	}
	if _, err := workers.Grant(t.Context(), c, "w1", wire.GatewayGrant{}, "admin/ann", now); err != nil {
		t.Fatal(err)
	}
	if views.Workers(c)[0].GatewayGrant != nil || clustertest.NewCore(t, store).M.Workers["w1"].Gateway.May() {
		t.Error("it may still")
	}
}
