package roottest

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/controller"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/status"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// NewCoreWithKeys is a new process of a root on a store, with the keys in dir.
func NewCoreWithKeys(t *testing.T, dir string, store *bustest.MemStore) *core.Core {
	t.Helper()
	key, err := seal.Ensure(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := NewCore(t, store)
	b.Key = key
	if b.Prover, err = key.Prover(clusters.ProofOf); err != nil {
		t.Fatal(err)
	}
	return b
}

// NewStore is a store that knows two clusters, and has an application.
func NewStore(t *testing.T) *bustest.MemStore {
	t.Helper()
	store := bustest.NewMemStore()
	for _, name := range []string{"edge", "fog"} {
		op, err := records.Op(state.KeyCluster+name, &state.ClusterRecord{V: wire.Version, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Commit(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// NewRunningCore is a root whose cluster good runs app.web.0; the cluster bad runs
// nothing.
func NewRunningCore(t *testing.T) *core.Core {
	t.Helper()
	c := NewCore(t, bustest.NewMemStore())
	joined := c.M.Begin()
	for _, name := range []string{"bad", "good"} {
		state.ClusterTable.Put(joined.Rows, name, &state.ClusterRecord{V: wire.Version, Name: name})
	}
	if err := c.Keeper.Whole(t.Context(), joined); err != nil {
		t.Fatal(err)
	}
	svc := &api.Service{
		Runtime: "process", Command: []string{"x"}, Replicas: api.Replicas{Min: 1, Max: 1},
		Resources: api.Resources{CPU: 1, Memory: 1, Disk: 1},
		Affinity:  api.Affinity{Cluster: []string{"good"}}, Ports: []api.Port{{Name: "http", Protocol: "http"}},
		Policy: api.Policy{Name: api.PolicyRoundRobin}, OnReturn: "original",
	}
	c.M.Apps["app"] = &record.Application{V: wire.Version, Name: "app", Revision: 1,
		Spec: &api.Application{Application: "app", Services: map[string]*api.Service{"web": svc}}}
	sp := wire.Spread{Sum: 100, Mean: 100, Max: 100}
	agg := JSON(t, wire.Aggregate{V: wire.Version, Workers: 1, Runtimes: []string{"process"},
		FreeCapacity: wire.FreeCapacity{CPU: sp, Memory: sp, Disk: sp}})
	clusters.OnReport(t.Context(), c, "good",
		wire.Report{V: wire.Version, To: wire.Rev{Inc: "good", N: 1}, Status: agg})
	Pass(t, c)
	rep := wire.Reported{Instance: wire.Instance{V: wire.Version, ID: "app.web.0", App: "app", Service: "web",
		Revision: 1, State: wire.Running, Conditions: wire.Conditions{Ready: true}}, Address: "good:1", Peer: "w-1"}
	clusters.OnReport(t.Context(), c, "good", wire.Report{
		V: wire.Version, From: wire.Rev{Inc: "good", N: 1}, To: wire.Rev{Inc: "good", N: 2},
		Changes: []wire.Change{{Key: rep.ID, Value: JSON(t, rep)}},
	})
	Pass(t, c)
	if v := status.Application(c.M, c.M.Apps["app"]); !v.Holds {
		t.Fatalf("it does not hold: %+v", v)
	}
	return c
}

// Pass makes a pass over everything.
func Pass(t *testing.T, c *core.Core) {
	t.Helper()
	if _, err := controller.Pass(context.Background(), c, time.Now(), true); err != nil {
		t.Fatal(err)
	}
}

// JSON is v as it is sent and stored.
func JSON(t *testing.T, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// NewCore is a root on an in-memory store, without clusters.
func NewCore(t *testing.T, store *bustest.MemStore) *core.Core {
	t.Helper()
	conn := bustest.NewMem().Conn("link", bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}})
	t.Cleanup(conn.Close)
	c := &core.Core{
		Logger: slog.New(slog.DiscardHandler), EventRing: obs.NewEvents(time.Now(), 0, state.Tier), RecordStore: store,
		LinkTo: func(string) (bus.Conn, error) { return conn, nil },
	}
	if err := controller.Init(t.Context(), c, time.Minute, time.Now()); err != nil {
		t.Fatal(err)
	}
	return c
}
