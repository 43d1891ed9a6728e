package workers_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/report"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/wire"
)

// A worker that says more than it can have to say must not make records that
// cannot be stored, or sent to the root.
func TestLongWordsAreCut(t *testing.T) {
	c := clustertest.NewRunningCore(t)
	st := clustertest.StatusOn(c, "bad")
	st.Phase, st.Why = wire.PhaseExited, strings.Repeat("x", 1<<20)
	st.LastExit = &wire.Exit{Code: 1, Signal: strings.Repeat("S", 1<<20)}
	clustertest.SendReport(t, c, "bad", wire.Rev{Inc: "bad", N: 2}, 3, nil, st)
	clustertest.Pass(t, c)
	list, err := c.RecordStore.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if len(e.Value) > 16<<10 {
			t.Errorf("%s has %d bytes", e.Key, len(e.Value))
		}
	}
	if i := c.M.Insts[st.ID]; i.Worker != "good" {
		t.Errorf("it is %s on %q, want it placed anew", i.State, i.Worker)
	}
}

// What a worker says that it has is believed as far as numbers go: it can be given
// what it does not have, and no other is harmed. What it refuses then is placed
// elsewhere, and not there again.
func TestAWorkerThatSaysItHasMore(t *testing.T) {
	c := clustertest.NewRunningCore(t)
	info := wire.WorkerInfo{V: wire.Version, Runtimes: []string{"process"}, Address: "bad:1"}
	say := func(n uint64, capacity api.Resources, statuses ...wire.InstanceStatus) (refused string) {
		t.Helper()
		c.M.Workers["bad"].Told = time.Time{}
		info.Capacity = capacity
		reply := clustertest.SendReport(t, c, "bad", wire.Rev{Inc: "bad", N: n - 1}, n, info, statuses...)
		clustertest.Pass(t, c)
		return reply.Refused
	}
	want := func(n int) {
		t.Helper()
		ch := clustertest.PublishedShare(t)
		var s wire.Share
		if err := json.Unmarshal(ch.Value, &s); err != nil {
			t.Fatal(err)
		}
		s.Min, s.Max, s.Ordinals = n, n, []wire.Span{{To: n}}
		ch.Value = clustertest.JSON(t, s)
		if err := uplink.FromRoot(c).Take(t.Context(), false, []wire.Change{ch}, wire.Rev{Inc: "root", N: uint64(n)},
			nil); err != nil {
			t.Fatal(err)
		}
		clustertest.Pass(t, c)
	}
	good := clustertest.StatusOn(c, "good").ID
	had := c.M.Workers["bad"].Info.Capacity
	for _, odd := range []api.Resources{{CPU: -1}, {Memory: math.MinInt64}, {Disk: -1}, {CPU: math.MaxInt64},
		{Memory: math.MaxInt64}} {
		if refused := say(3, odd); !strings.Contains(refused, "what the worker says about itself") ||
			c.M.Workers["bad"].Info.Capacity != had {
			t.Errorf("%+v is believed: %q", odd, refused)
		}
	}
	say(3, api.Resources{})
	want(3)
	if i := c.M.Insts["app.web.2"]; i.Worker != "good" {
		t.Errorf("a worker that has nothing is given something: %+v", i)
	}
	if refused := say(4, api.Resources{CPU: 1 << 60, Memory: 1 << 60, Disk: 1 << 60}); refused != "" {
		t.Fatal(refused)
	}
	want(4)
	i := c.M.Insts["app.web.3"]
	if i.Worker != "bad" {
		t.Fatalf("it is on %q", i.Worker)
	}
	say(5, info.Capacity, wire.InstanceStatus{V: wire.Version, ID: i.ID, Incarnation: i.Incarnation, Revision: 1,
		Phase: wire.PhaseRefused, Why: "needs 1 byte of memory, 0 are free"})
	if i := c.M.Insts["app.web.3"]; i.Worker != "good" || !slices.Contains(i.Avoid, "bad") {
		t.Errorf("what it refused is on %q, and avoids %v", i.Worker, i.Avoid)
	}
	if i := c.M.Insts[good]; i.Worker != "good" || i.State != wire.Running || i.Incarnation != 1 {
		t.Errorf("another's instance is now %+v", i)
	}
	agg := report.Aggregate(c.M, wire.Rev{}, nil)
	for _, s := range []wire.Spread{agg.CPU, agg.Memory, agg.Disk} {
		if s.Sum < 0 || s.Mean < 0 || s.Dev < 0 || s.Max < 0 || math.IsInf(s.Sum+s.Dev, 0) {
			t.Errorf("the root is told %+v", s)
		}
	}
}

// FuzzOnReport: whatever one worker reports, the cluster works on and nothing of
// the other worker changes.
func FuzzOnReport(f *testing.F) {
	for _, s := range []string{
		`{"v":1}`,
		`{"v":1,"t":{"i":"x","n":1},"c":[{"k":"app.web.1","v":{"v":1,"id":"app.web.1","incarnation":1,"phase":"exited","why":"a"}},{"k":"app.web.0","v":{"id":"app.web.0","incarnation":1,"phase":"stopped"}}]}`,
		`{"v":1,"t":{"i":"x","n":1},"m":true,"c":[{"k":"../x","d":true},{"k":"","v":null}]}`,
		`{"v":1,"f":{"i":"bad","n":2},"t":{"i":"bad","n":3},"c":[{"k":"app.web.0","v":{"id":"app.web.0","incarnation":1,"phase":"refused","restarts":-5}},{"k":"app.web.1","v":{"id":"app.web.1","incarnation":1,"phase":"refused"}}],"x":-1}`,
		`{"v":1,"s":{"name":"good","capacity":{"cpu":-1,"memory":9223372036854775807,"disk":-9223372036854775808},"runtimes":["process","",""],"address":"good:1"}}`,
		`{"v":1,"u":9223372036854775807}`,
		`{"v":1,"s":{"capacity":"x"},"x":9223372036854775807}`,
		`{"v":1,"t":{"i":"","n":18446744073709551615},"c":[{"k":"app.web.0","v":{"id":"app.web.0","incarnation":-9223372036854775808,"phase":"running"}}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r wire.Report
		if json.Unmarshal(data, &r) != nil {
			t.Skip()
		}
		c := clustertest.NewRunningCore(t)
		id := clustertest.StatusOn(c, "good").ID
		before := [][]byte{clustertest.JSON(t, c.M.Insts[id]), clustertest.JSON(t, c.M.Workers["good"].Info),
			clustertest.JSON(t, c.M.Orders["good."+id])}
		workers.OnReport(t.Context(), c, "bad", r)
		clustertest.Pass(t, c)
		if _, err := uplink.UpStatus(c, true); err != nil {
			t.Fatal(err)
		}
		after := [][]byte{clustertest.JSON(t, c.M.Insts[id]), clustertest.JSON(t, c.M.Workers["good"].Info),
			clustertest.JSON(t, c.M.Orders["good."+id])}
		for n := range before {
			if string(before[n]) != string(after[n]) {
				t.Fatalf("the other worker's part changed from\n%s\nto\n%s", before[n], after[n])
			}
		}
		found := false
		for _, e := range c.M.Routes["app.web"].Endpoints {
			found = found || e.Instance == id && e.Worker == "good" && e.Address == "good:1"
		}
		if !found {
			t.Fatalf("its endpoint is gone: %+v", c.M.Routes["app.web"])
		}
		// What is in memory is what is stored.
		again := state.NewModel(c.ClusterName, true, time.Now())
		if err := core.Read(t.Context(), again, c.RecordStore, time.Now()); err != nil {
			t.Fatal(err)
		}
		if !records.Same(again.Insts, c.M.Insts) || !records.Same(again.Orders, c.M.Orders) ||
			!records.Same(again.Routes, c.M.Routes) {
			t.Fatal("memory and store differ")
		}
	})
}
