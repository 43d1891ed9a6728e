package cluster

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// newHostileCore is a cluster that runs app.web.0 and app.web.1, one on each of
// the workers bad and good.
func newHostileCore(t *testing.T) *core {
	t.Helper()
	c := newTestCore(t, bus.NewMemStore())
	for _, name := range []string{"bad", "good"} {
		c.m.Workers[name] = state.NewWorker(state.WorkerRecord{V: wire.Version}, time.Now())
		c.m.Workers[name].Info.Name = name
		info := wire.WorkerInfo{V: wire.Version, Runtimes: []string{"process"}, Address: name + ":1", Capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 1 << 30}}
		report(t, c, name, wire.Rev{}, 1, info)
	}
	if err := (*rootDesired)(c).Take(t.Context(), true, []wire.Change{published(t)}, wire.Rev{Inc: "root", N: 1}, nil); err != nil {
		t.Fatal(err)
	}
	pass(t, c)
	for _, name := range []string{"bad", "good"} {
		report(t, c, name, wire.Rev{Inc: name, N: 1}, 2, nil, runningOn(c, name))
	}
	pass(t, c)
	for _, id := range []string{"app.web.0", "app.web.1"} {
		if i := c.m.Insts[id]; i == nil || i.State != wire.Running {
			t.Fatalf("%s is not running: %+v", id, i)
		}
	}
	return c
}

// published is a share of two instances with a port.
func published(t *testing.T) wire.Change {
	t.Helper()
	ch := share(t, 2)
	var s wire.Share
	if err := json.Unmarshal(ch.Value, &s); err != nil {
		t.Fatal(err)
	}
	s.Spec.Ports = []api.Port{{Name: "http", Protocol: "http"}}
	ch.Value = encoded(t, s)
	return ch
}

func pass(t *testing.T, c *core) {
	t.Helper()
	if _, err := c.pass(context.Background(), time.Now(), true); err != nil {
		t.Fatal(err)
	}
}

// runningOn is the status of the one instance that was placed on a worker.
func runningOn(c *core, name string) wire.InstanceStatus {
	for _, i := range c.m.Insts {
		if i.Worker == name {
			return wire.InstanceStatus{V: wire.Version, ID: i.ID, Incarnation: i.Incarnation, Revision: 1, Phase: wire.PhaseRunning, Ready: true}
		}
	}
	return wire.InstanceStatus{}
}

// report sends one report of a worker as it would.
func report(t *testing.T, c *core, name string, from wire.Rev, n uint64, info any, statuses ...wire.InstanceStatus) wire.ReportReply {
	t.Helper()
	r := wire.Report{V: wire.Version, From: from, To: wire.Rev{Inc: name, N: n}, Next: 1000}
	if info != nil {
		r.Status = encoded(t, info)
	}
	for _, st := range statuses {
		r.Changes = append(r.Changes, wire.Change{Key: st.ID, Value: encoded(t, st)})
	}
	return c.onReport(t.Context(), name, r)
}

func encoded(t testing.TB, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A worker that says more than it can have to say must not make records that
// cannot be stored, or sent to the root.
func TestLongWordsAreCut(t *testing.T) {
	c := newHostileCore(t)
	st := runningOn(c, "bad")
	st.Phase, st.Why = wire.PhaseExited, strings.Repeat("x", 1<<20)
	st.LastExit = &wire.Exit{Code: 1, Signal: strings.Repeat("S", 1<<20)}
	report(t, c, "bad", wire.Rev{Inc: "bad", N: 2}, 3, nil, st)
	pass(t, c)
	list, err := c.store.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if len(e.Value) > 16<<10 {
			t.Errorf("%s has %d bytes", e.Key, len(e.Value))
		}
	}
	if i := c.m.Insts[st.ID]; i.Worker != "good" {
		t.Errorf("it is %s on %q, want it placed anew", i.State, i.Worker)
	}
}

// What a worker says that it has is believed as far as numbers go: it can be given
// what it does not have, and no other is harmed. What it refuses then is placed
// elsewhere, and not there again.
func TestAWorkerThatSaysItHasMore(t *testing.T) {
	c := newHostileCore(t)
	info := wire.WorkerInfo{V: wire.Version, Runtimes: []string{"process"}, Address: "bad:1"}
	say := func(n uint64, capacity api.Resources, statuses ...wire.InstanceStatus) (refused string) {
		t.Helper()
		c.m.Workers["bad"].Told = time.Time{}
		info.Capacity = capacity
		reply := report(t, c, "bad", wire.Rev{Inc: "bad", N: n - 1}, n, info, statuses...)
		pass(t, c)
		return reply.Refused
	}
	want := func(n int) {
		t.Helper()
		ch := published(t)
		var s wire.Share
		if err := json.Unmarshal(ch.Value, &s); err != nil {
			t.Fatal(err)
		}
		s.Min, s.Max, s.Ordinals = n, n, []wire.Span{{To: n}}
		ch.Value = encoded(t, s)
		if err := (*rootDesired)(c).Take(t.Context(), false, []wire.Change{ch}, wire.Rev{Inc: "root", N: uint64(n)}, nil); err != nil {
			t.Fatal(err)
		}
		pass(t, c)
	}
	good := runningOn(c, "good").ID
	had := c.m.Workers["bad"].Info.Capacity
	for _, odd := range []api.Resources{{CPU: -1}, {Memory: math.MinInt64}, {Disk: -1}, {CPU: math.MaxInt64}, {Memory: math.MaxInt64}} {
		if refused := say(3, odd); !strings.Contains(refused, "what the worker says about itself") || c.m.Workers["bad"].Info.Capacity != had {
			t.Errorf("%+v is believed: %q", odd, refused)
		}
	}
	say(3, api.Resources{})
	want(3)
	if i := c.m.Insts["app.web.2"]; i.Worker != "good" {
		t.Errorf("a worker that has nothing is given something: %+v", i)
	}
	if refused := say(4, api.Resources{CPU: 1 << 60, Memory: 1 << 60, Disk: 1 << 60}); refused != "" {
		t.Fatal(refused)
	}
	want(4)
	i := c.m.Insts["app.web.3"]
	if i.Worker != "bad" {
		t.Fatalf("it is on %q", i.Worker)
	}
	say(5, info.Capacity, wire.InstanceStatus{V: wire.Version, ID: i.ID, Incarnation: i.Incarnation, Revision: 1, Phase: wire.PhaseRefused, Why: "needs 1 byte of memory, 0 are free"})
	if i := c.m.Insts["app.web.3"]; i.Worker != "good" || !slices.Contains(i.Avoid, "bad") {
		t.Errorf("what it refused is on %q, and avoids %v", i.Worker, i.Avoid)
	}
	if i := c.m.Insts[good]; i.Worker != "good" || i.State != wire.Running || i.Incarnation != 1 {
		t.Errorf("another's instance is now %+v", i)
	}
	agg := c.m.aggregate(wire.Rev{}, nil)
	for _, s := range []wire.Spread{agg.CPU, agg.Memory, agg.Disk} {
		if s.Sum < 0 || s.Mean < 0 || s.Dev < 0 || s.Max < 0 || math.IsInf(s.Sum+s.Dev, 0) {
			t.Errorf("the root is told %+v", s)
		}
	}
}

// An application of the same name, program and revision in another namespace does
// not take over what runs, with the secrets and volumes of that.
func TestAnotherNamespaceIsAnotherApplication(t *testing.T) {
	s := newSim(t, "w1")
	s.share("web", 1, nil)
	s.ticks(3, time.Second)
	next := *s.m.Given["app.web"]
	next.Namespace = "theirs"
	s.m.Given["app.web"] = &next
	s.m.effect()
	s.ticks(2, time.Second)
	if o := s.m.Orders["w1.app.web.0"]; o == nil || o.Namespace != "theirs" {
		t.Errorf("the worker is told %+v", o)
	}
	next.Namespace = api.DefaultNamespace
	s.ticks(2, time.Second)
	before := s.m.Orders["w1.app.web.0"]
	next.Namespace = ""
	s.ticks(2, time.Second)
	if o := s.m.Orders["w1.app.web.0"]; o != before {
		t.Errorf("the same namespace by another name: %+v", o)
	}
}

// An application that was deleted and applied anew has revision 1 again.
func TestAnotherProgramWithTheSameRevisionIsTakenOver(t *testing.T) {
	s := newSim(t, "w1")
	s.share("web", 1, nil)
	s.ticks(3, time.Second)
	s.share("web", 1, func(v *api.Service) { v.Command = []string{"y"} })
	s.m.Given["app.web"].Revision = 1
	s.m.effect()
	s.ticks(12, time.Second)
	i := s.inst("app.web.0")
	if o := s.m.Orders["w1.app.web.0"]; o.Spec.Command[0] != "y" || i.State != wire.Running || i.Incarnation != 2 {
		t.Fatalf("it runs %v as incarnation %d", o.Spec.Command, i.Incarnation)
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
		c := newHostileCore(t)
		id := runningOn(c, "good").ID
		before := [][]byte{encoded(t, c.m.Insts[id]), encoded(t, c.m.Workers["good"].Info), encoded(t, c.m.Orders["good."+id])}
		c.onReport(t.Context(), "bad", r)
		pass(t, c)
		if _, err := c.upStatus(true); err != nil {
			t.Fatal(err)
		}
		after := [][]byte{encoded(t, c.m.Insts[id]), encoded(t, c.m.Workers["good"].Info), encoded(t, c.m.Orders["good."+id])}
		for n := range before {
			if string(before[n]) != string(after[n]) {
				t.Fatalf("the other worker's part changed from\n%s\nto\n%s", before[n], after[n])
			}
		}
		found := false
		for _, e := range c.m.Routes["app.web"].Endpoints {
			found = found || e.Instance == id && e.Worker == "good" && e.Address == "good:1"
		}
		if !found {
			t.Fatalf("its endpoint is gone: %+v", c.m.Routes["app.web"])
		}
		// What is in memory is what is stored.
		again := newModel(c.name, true, time.Now())
		if err := again.read(t.Context(), c.store, time.Now()); err != nil {
			t.Fatal(err)
		}
		if !records.Same(again.Insts, c.m.Insts) || !records.Same(again.Orders, c.m.Orders) || !records.Same(again.Routes, c.m.Routes) {
			t.Fatal("memory and store differ")
		}
	})
}

// FuzzTake: whatever a root sends, the cluster does not fall.
func FuzzTake(f *testing.F) {
	f.Add("share.app.web", []byte(`{"v":1,"app":"app","service":"web","min":2,"ordinals":[{"from":0,"to":2}],"spec":null}`), true)
	f.Add("share.other.x", []byte(`{"v":1,"app":"app","service":"web","min":9000000000,"ordinals":[{"from":-5,"to":2147483647}],"spec":{"command":["x"],"ports":[{}]}}`), false)
	f.Add("route.app.web", []byte(`{"app":"","service":"web","endpoints":[{"instance":"x","cluster":"far"}]}`), false)
	f.Add("share.app.web", []byte(`null`), false)
	f.Fuzz(func(t *testing.T, key string, value []byte, full bool) {
		c := newHostileCore(t)
		if err := (*rootDesired)(c).Take(t.Context(), full, []wire.Change{{Key: key, Value: value}}, wire.Rev{Inc: "root", N: 2}, nil); err != nil {
			return
		}
		_, _ = c.pass(t.Context(), time.Now(), true)
		_, _ = c.upStatus(true)
		c.m.apps()
	})
}
