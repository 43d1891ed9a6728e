package backend

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/exchange/exchangetest"
	"github.com/verge-edge/verge/internal/cluster/answer"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// measuring makes a worker answer what it measures.
func measuring(t *testing.T, c *core.Core, name string, uses map[string]rpc.Use) {
	t.Helper()
	top := rpc.WorkerTop{V: wire.Version, SpanMs: 500}
	for id, u := range uses {
		top.Instances = append(top.Instances, rpc.InstanceUse{ID: id, Use: u})
	}
	exchangetest.OnAsk(t, c.Local, exchange.WorkerSubjects(name), func(_ rpc.Ask, sent string) (any, *wire.Problem) {
		if sent != `{"w":"top"}` {
			t.Errorf("asked %s", sent)
		}
		return top, nil
	})
}

// What a cluster measures: what each worker says of what it has, and of all that
// nobody can tell why not.
func TestTop(t *testing.T) {
	ctx := t.Context()
	c := clustertest.NewCore(t, bustest.NewMemStore())
	b := &Backend{Core: c}
	for _, name := range []string{"w1", "w2"} {
		c.M.Workers[name] = state.NewWorker(state.WorkerRecord{Info: wire.WorkerInfo{Name: name}}, time.Now())
	}
	if err := uplink.FromRoot(c).Take(ctx, true, []wire.Change{clustertest.ShareChange(t, 1)}, wire.Rev{Inc: "root", N: 1},
		nil); err != nil {
		t.Fatal(err)
	}
	for id, worker := range map[string]string{"app.web.0": "w1", "app.web.1": "w1", "app.web.2": "w2",
		"app.web.10": "", "other.web.0": "w1"} {
		name, _, _ := strings.Cut(id, ".")
		c.M.Insts[id] = &wire.Instance{ID: id, App: name, Service: "web", Worker: worker, State: wire.Running}
	}
	measuring(t, c, "w1", map[string]rpc.Use{
		"app.web.0":   {CPU: 250, Memory: 1 << 20, Tasks: 3},
		"other.web.0": {CPU: 1, Memory: 1 << 59, Tasks: -1},
		"app.web.2":   {CPU: 9999}, // which it does not have
	})
	list, err := b.TopInstances(ctx, "app")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range list {
		use := "-"
		if v.Used != nil {
			use = fmt.Sprint(*v.Used)
		}
		got = append(got, v.ID+" "+use+" "+v.Problem)
		if v.Cluster != "edge" || v.Reserved.CPU != 100 || v.Namespace != "default" {
			t.Errorf("%+v", v)
		}
	}
	want := []string{
		"app.web.0 {250m 1Mi 3} ", "app.web.1 - it does not run now", "app.web.10 - it is on no worker",
		"app.web.2 - worker w2, which knows, does not answer",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	workers, err := b.TopWorkers(ctx)
	if err != nil || len(workers) != 2 || workers[0].Used == nil || workers[1].Used != nil || workers[1].Problem == "" {
		t.Fatalf("%+v, %v", workers, err)
	}
	if u := *workers[0].Used; u.CPU != 250+1+9999 || u.Memory != 1<<50+1<<20 || u.Tasks != 3 {
		t.Errorf("%+v", u)
	}
	clusters, err := b.TopClusters(ctx)
	if err != nil || len(clusters) != 1 || clusters[0].Name != "edge" || clusters[0].Workers != 2 ||
		clusters[0].Measured != 1 || clusters[0].Used == nil {
		t.Errorf("%+v, %v", clusters, err)
	}
	c.M.Details = false
	for _, what := range []string{"top", "top-workers"} {
		_, err := answer.Answer(ctx, c, rpc.Ask{What: what})
		if p := new(wire.Problem); !errors.As(err, &p) || p.Code != "kept-private" {
			t.Errorf("a root that is not told details gets %v", err)
		}
	}
}

// Many instances come in pages, each once.
func TestTopOfMany(t *testing.T) {
	c := clustertest.NewCore(t, bustest.NewMemStore())
	const n = 2*views.TopPage + 5
	for i := range n {
		id := fmt.Sprintf("app.web.%d", i)
		c.M.Insts[id] = &wire.Instance{ID: id, App: "app", Service: "web", Ordinal: i}
	}
	list, err := (&Backend{Core: c}).TopInstances(t.Context(), "")
	seen := map[string]bool{}
	for _, v := range list {
		seen[v.ID] = true
	}
	if err != nil || len(list) != n || len(seen) != n {
		t.Errorf("%d instances, %d different, %v", len(list), len(seen), err)
	}
}
