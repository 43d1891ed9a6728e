package controller_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/routes"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/wire"
)

// atSize is a cluster with so many workers, on which services of a hundred instances
// each run, as it is after a start when all have been heard.
func atSize(b *testing.B, workers, instances int) *core.Core {
	b.Helper()
	const each = 100
	store := bustest.NewMemStore()
	var ops []bus.Op
	put := func(key string, v any) {
		data, err := json.Marshal(v)
		if err != nil {
			b.Fatal(err)
		}
		ops = append(ops, bus.Put(key, data))
		if len(ops) == bus.MaxCommitOps {
			if _, err := store.Commit(b.Context(), ops...); err != nil {
				b.Fatal(err)
			}
			ops = nil
		}
	}
	name := func(n int) string { return fmt.Sprintf("w-%d", n%workers) }
	room := api.Resources{CPU: 8000, Memory: 16 << 30, Disk: 100 << 30}
	for n := range workers {
		put(state.KeyWorker+name(n), state.WorkerRecord{V: wire.Version, KeyHash: "hash-" + name(n),
			Info: wire.WorkerInfo{
				V: wire.Version, Name: name(n), Capacity: room, Runtimes: []string{"process"}, Arch: "amd64",
				OS:   "linux",
				Uses: true,
			}})
		put(routes.KeyUses+name(n)+"."+routes.UsesOnly, struct{}{})
	}
	now := time.Now().Round(0)
	statuses := map[string][]wire.InstanceStatus{}
	for s := range instances / each {
		svc := fmt.Sprintf("s%d", s)
		share := wire.Share{V: wire.Version, App: "app", Service: svc, Revision: 1, Min: each,
			Ordinals: []wire.Span{{From: 0, To: each}}}
		share.Spec = &api.Service{Command: []string{"x"}, Resources: api.Resources{CPU: 100, Memory: 64 << 20}}
		put(state.KeyShare+"app."+svc, share)
		for o := range each {
			id, at := state.InstanceID("app", svc, o), name(s*each+o)
			put(state.KeyInstance+id, wire.Instance{
				V: wire.Version, ID: id, App: "app", Service: svc, Ordinal: o, Incarnation: 1,
				Relocation: wire.Relocation{Given: 1}, Revision: 1,
				Cluster: "edge", Worker: at,
				State: wire.Running, Since: now, Conditions: wire.Conditions{Ready: true},
				Program: share.Spec.ProgramID(),
				History: []wire.Transition{{To: wire.ClusterScheduled, At: now}, {To: wire.WorkerScheduled, At: now},
					{To: wire.Running, At: now, Tier: "worker/" + at, Why: "started"}},
			})
			put(state.KeyOrder+at+"."+id,
				wire.Order{V: wire.Version, ID: id, App: "app", Service: svc, Ordinal: o, Incarnation: 1, Revision: 1,
					Spec: share.Spec})
			statuses[at] = append(statuses[at],
				wire.InstanceStatus{V: wire.Version, ID: id, Incarnation: 1, Revision: 1, Phase: wire.PhaseRunning,
					Ready: true})
		}
	}
	if _, err := store.Commit(b.Context(), ops...); err != nil {
		b.Fatal(err)
	}
	c := clustertest.NewCore(b, store)
	for n := range workers {
		say(b, c, name(n), 0, statuses[name(n)]...)
	}
	for range 3 {
		if _, err := controller.Pass(b.Context(), c, time.Now(), true); err != nil {
			b.Fatal(err)
		}
	}
	for _, i := range c.M.Insts {
		if i.State != wire.Running || !i.Ready {
			b.Fatalf("%+v", i)
		}
	}
	return c
}

// say makes a worker report statuses, as what follows its report at.
func say(b *testing.B, c *core.Core, name string, at uint64, statuses ...wire.InstanceStatus) {
	b.Helper()
	r := wire.Report{V: wire.Version, To: wire.Rev{Inc: "run", N: at + 1}, Next: 10_000,
		Have: workers.DesiredOf(c, name).Rev()}
	if at > 0 {
		r.From = wire.Rev{Inc: "run", N: at}
	}
	for _, st := range statuses {
		v, err := json.Marshal(st)
		if err != nil {
			b.Fatal(err)
		}
		r.Changes = append(r.Changes, wire.Change{Key: st.ID, Value: v})
	}
	if reply := workers.OnReport(b.Context(), c, name, r); reply.Refused != "" || reply.Ack != r.To {
		b.Fatalf("%+v", reply)
	}
}

// BenchmarkHeartbeat is the report of a worker that has nothing new to say, without
// the bus.
func BenchmarkHeartbeat(b *testing.B) {
	c := atSize(b, 10_000, 10_000)
	have := workers.DesiredOf(c, "w-1").Rev()
	b.ReportAllocs()
	for b.Loop() {
		workers.OnReport(b.Context(), c, "w-1", wire.Report{V: wire.Version, Have: have, Next: 10_000, To: wire.Rev{}})
	}
}

// BenchmarkLook is a look at the clock when nothing has changed, which is made every
// second.
func BenchmarkLook(b *testing.B) {
	c := atSize(b, 10_000, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := controller.Pass(b.Context(), c, time.Now(), false); err != nil {
			b.Fatal(err)
		}
		controller.Pause(c, true)
	}
}

// BenchmarkPass is what it takes to hear of one instance among many, and to store that.
func BenchmarkPass(b *testing.B) {
	for _, size := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			c := atSize(b, size, size)
			id := state.InstanceID("app", "s3", 7)
			at := c.M.Insts[id].Worker
			st := c.M.Workers[at].Status[id]
			n := uint64(1)
			b.ReportAllocs()
			for b.Loop() {
				st.Restarts++
				say(b, c, at, n, st)
				n++
				if _, err := controller.Pass(b.Context(), c, time.Now(), true); err != nil {
					b.Fatal(err)
				}
			}
			if c.M.Insts[id].Restarts != st.Restarts {
				b.Errorf("%d restarts are stored, %d were reported", c.M.Insts[id].Restarts, st.Restarts)
			}
		})
	}
}

// BenchmarkAggregate is what the root is told, with each exchange.
func BenchmarkAggregate(b *testing.B) {
	c := atSize(b, 10_000, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := uplink.UpStatus(c, true); err != nil {
			b.Fatal(err)
		}
	}
}
