package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/consult"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/pace"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

// Init is c with what its store holds.
func Init(ctx context.Context, c *core.Core, details bool, now time.Time) (*core.Core, error) {
	return c, controller.Init(ctx, c, details, now)
}

// NewCore is a cluster on an in-memory bus with one registered worker.
func NewCore(t testing.TB, store *bustest.MemStore) *core.Core {
	t.Helper()
	hub := bustest.NewMem()
	all := bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
	c, err := Init(context.Background(), &core.Core{
		ClusterName: "edge", Logger: slog.New(slog.DiscardHandler),
		EventRing:   obs.NewEvents(time.Now(), 0, "cluster/edge"),
		RecordStore: store,
		Local:       hub.Conn("local", all), Up: hub.Conn("up", all),
	}, true, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { consult.StopAsking(c); c.Local.Close(); c.Up.Close() })
	return c
}

// ShareChange is the change by which the root gives a cluster n instances of app.web.
func ShareChange(t *testing.T, n int) wire.Change {
	t.Helper()
	b, err := json.Marshal(wire.Share{
		V: wire.Version, App: "app", Service: "web", Revision: 1, Min: n, Max: n, Ordinals: []wire.Span{{To: n}},
		Spec: &api.Service{Runtime: "process", Command: []string{"x"}, Scheduler: "rom", Spread: "soft",
			Resources: api.Resources{CPU: 100}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return wire.Change{Key: "share.app.web", Value: b}
}

// TwoWorkers are w1 and w2 of a cluster. pass has some of them report, lets the cluster
// look, and then so much time go by.
func TwoWorkers(t *testing.T, c *core.Core) (
	obedient map[string]*Worker, pass func(d time.Duration, reporting ...string),
) {
	obedient = map[string]*Worker{}
	s := &Sim{T: t, Model: c.M, Disk: map[string][]byte{}, Workers: obedient}
	for _, name := range []string{"w1", "w2"} {
		s.AddWorker(name)
	}
	now := time.Now()
	return obedient, func(d time.Duration, reporting ...string) {
		t.Helper()
		s.Model, s.Now = c.M, now
		for _, name := range reporting {
			obedient[name].Act(s, name)
			c.M.Workers[name].HeartbeatInterval = time.Second
		}
		if _, err := controller.Pass(t.Context(), c, now, true); err != nil {
			t.Fatal(err)
		}
		pace.Memory(c.M).Planned = d
		now = now.Add(d)
	}
}

// NewRunningCore is a cluster that runs app.web.0 and app.web.1, one on each of
// the workers bad and good.
func NewRunningCore(t *testing.T) *core.Core {
	t.Helper()
	c := NewCore(t, bustest.NewMemStore())
	for _, name := range []string{"bad", "good"} {
		c.M.Workers[name] = state.NewWorker(state.WorkerRecord{V: wire.Version}, time.Now())
		c.M.Workers[name].Info.Name = name
		info := wire.WorkerInfo{V: wire.Version, Runtimes: []string{"process"}, Address: name + ":1",
			Capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 1 << 30}}
		SendReport(t, c, name, wire.Rev{}, 1, info)
	}
	if err := uplink.FromRoot(c).Take(t.Context(), true, []wire.Change{PublishedShare(t)}, wire.Rev{Inc: "root", N: 1},
		nil); err != nil {
		t.Fatal(err)
	}
	Pass(t, c)
	for _, name := range []string{"bad", "good"} {
		SendReport(t, c, name, wire.Rev{Inc: name, N: 1}, 2, nil, StatusOn(c, name))
	}
	Pass(t, c)
	for _, id := range []string{"app.web.0", "app.web.1"} {
		if i := c.M.Insts[id]; i == nil || i.State != wire.Running {
			t.Fatalf("%s is not running: %+v", id, i)
		}
	}
	return c
}

// PublishedShare is a share of two instances with a port.
func PublishedShare(t *testing.T) wire.Change {
	t.Helper()
	ch := ShareChange(t, 2)
	var s wire.Share
	if err := json.Unmarshal(ch.Value, &s); err != nil {
		t.Fatal(err)
	}
	s.Spec.Ports = []api.Port{{Name: "http", Protocol: "http"}}
	ch.Value = JSON(t, s)
	return ch
}

// Pass makes a pass over everything.
func Pass(t *testing.T, c *core.Core) {
	t.Helper()
	if _, err := controller.Pass(context.Background(), c, time.Now(), true); err != nil {
		t.Fatal(err)
	}
}

// StatusOn is the status of the one instance that was placed on a worker.
func StatusOn(c *core.Core, name string) wire.InstanceStatus {
	for _, i := range c.M.Insts {
		if i.Worker == name {
			return wire.InstanceStatus{V: wire.Version, ID: i.ID, Incarnation: i.Incarnation, Revision: 1,
				Phase: wire.PhaseRunning, Ready: true}
		}
	}
	return wire.InstanceStatus{}
}

// SendReport sends one report of a worker as it would.
func SendReport(t *testing.T, c *core.Core, name string, from wire.Rev, n uint64, info any,
	statuses ...wire.InstanceStatus) wire.ReportReply {
	t.Helper()
	r := wire.Report{V: wire.Version, From: from, To: wire.Rev{Inc: name, N: n}, Next: 1000}
	if info != nil {
		r.Status = JSON(t, info)
	}
	for _, st := range statuses {
		r.Changes = append(r.Changes, wire.Change{Key: st.ID, Value: JSON(t, st)})
	}
	return workers.OnReport(t.Context(), c, name, r)
}

// JSON is v as it is sent and stored.
func JSON(t testing.TB, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ManyWorkers is a core of n workers, each of which has been heard and runs an instance.
func ManyWorkers(tb testing.TB, n int, now time.Time) *core.Core {
	c := NewCore(tb, bustest.NewMemStore())
	for k := range n {
		name := fmt.Sprintf("w%05d", k)
		w := state.NewWorker(state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{V: wire.Version, Name: name}},
			now)
		w.EverHeard, w.Heard, w.HeartbeatInterval = true, now, time.Second
		c.M.Workers[name] = w
		id := state.InstanceID("app", "web", k)
		c.M.Insts[id] = &wire.Instance{V: wire.Version, ID: id, App: "app", Service: "web", Ordinal: k, Worker: name,
			State: wire.Running, Conditions: wire.Conditions{Ready: true}}
	}
	return c
}

// NewCoreWithWorkers is a cluster whose store holds workers with these names.
func NewCoreWithWorkers(t *testing.T, names ...string) (*core.Core, *bustest.MemStore) {
	t.Helper()
	store := bustest.NewMemStore()
	for _, name := range names {
		rec := state.WorkerRecord{V: wire.Version, KeyHash: "hash-" + name,
			Info: wire.WorkerInfo{V: wire.Version, Name: name}}
		if _, err := store.Put(t.Context(), state.KeyWorker+name, JSON(t, rec)); err != nil {
			t.Fatal(err)
		}
	}
	return NewCore(t, store), store
}

// AddWorkers registers workers in a core, as joining does.
func AddWorkers(t *testing.T, c *core.Core, names ...string) {
	t.Helper()
	for _, name := range names {
		rec := state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{V: wire.Version, Name: name, Trust: "old"},
			Joined: time.Now(), PublicKey: "U" + name, KeyHash: pki.KeyHash([]byte(name))}
		b, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.RecordStore.Put(t.Context(), state.KeyWorker+name, b); err != nil {
			t.Fatal(err)
		}
		c.M.Workers[name] = state.NewWorker(rec, time.Now())
	}
}

// WantCode fails unless err is a problem with this code.
func WantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	var p *wire.Problem
	if !errors.As(err, &p) || p.Code != code || p.Remedy == "" {
		t.Errorf("%s: %v, want %s with a remedy", what, err, code)
	}
}
