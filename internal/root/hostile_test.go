package root

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
)

// newHostileCore is a root whose cluster good runs app.web.0; the cluster bad runs
// nothing.
func newHostileCore(t *testing.T) *core {
	t.Helper()
	all := bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
	conn := bus.NewMem().Conn("link", all)
	t.Cleanup(conn.Close)
	c := &core{
		log: slog.New(slog.DiscardHandler), events: obs.NewEvents(time.Now(), 0), store: bus.NewMemStore(),
		link: func(string) (bus.Conn, error) { return conn, nil },
	}
	if err := c.init(t.Context(), time.Minute, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bad", "good"} {
		c.m.clusters[name] = newCluster(clusterRecord{V: wire.Version, Name: name}, time.Now())
	}
	svc := &api.Service{
		Runtime: "process", Command: []string{"x"}, Replicas: api.Replicas{Min: 1, Max: 1}, Resources: api.Resources{CPU: 1, Memory: 1, Disk: 1},
		Affinity: api.Affinity{Cluster: []string{"good"}}, Ports: []api.Port{{Name: "http", Protocol: "http"}}, Policy: api.Policy{Name: api.PolicyRoundRobin}, OnReturn: "original",
	}
	c.m.apps["app"] = &wire.Application{V: wire.Version, Name: "app", Revision: 1, Spec: &api.Application{Application: "app", Services: map[string]*api.Service{"web": svc}}}
	sp := wire.Spread{Sum: 100, Mean: 100, Max: 100}
	agg := encoded(t, wire.Aggregate{V: wire.Version, Workers: 1, Runtimes: []string{"process"}, CPU: sp, Memory: sp, Disk: sp})
	c.onReport(t.Context(), "good", wire.Report{V: wire.Version, To: wire.Rev{Inc: "good", N: 1}, Status: agg})
	pass(t, c)
	rep := wire.Reported{Instance: wire.Instance{V: wire.Version, ID: "app.web.0", App: "app", Service: "web", Revision: 1, State: wire.Running, Ready: true}, Address: "good:1", Peer: "w-1"}
	c.onReport(t.Context(), "good", wire.Report{
		V: wire.Version, From: wire.Rev{Inc: "good", N: 1}, To: wire.Rev{Inc: "good", N: 2},
		Changes: []wire.Change{{Key: rep.ID, Value: encoded(t, rep)}},
	})
	pass(t, c)
	if v := c.m.appView(c.m.apps["app"]); !v.Holds {
		t.Fatalf("it does not hold: %+v", v)
	}
	return c
}

func pass(t *testing.T, c *core) {
	t.Helper()
	if _, err := c.pass(context.Background(), time.Now(), true); err != nil {
		t.Fatal(err)
	}
}

func encoded(t *testing.T, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The largest application that there may be is stored, delegated, scaled and ended
// like any other, in parts that each fit where they go.
func TestAThousandServices(t *testing.T) {
	store := bus.NewMemStore()
	b := newTestBackend(t, store)
	now := time.Now()
	cl := newCluster(clusterRecord{V: wire.Version, Name: "edge"}, now)
	much := wire.Spread{Sum: 1 << 50, Mean: 1 << 50, Max: 1 << 50}
	cl.agg = &wire.Aggregate{V: wire.Version, Workers: 1, Runtimes: []string{"process"}, CPU: much, Memory: much, Disk: much}
	cl.heard, cl.everHeard, cl.connected, cl.current = now, true, true, true
	b.m.clusters["edge"] = cl
	var source strings.Builder
	source.WriteString("application: big\nservices:\n")
	for i := range api.MaxServices {
		fmt.Fprintf(&source, "  s%d: {command: [x, \"${VERGE_S%d_ADDR}\"], ports: [{}]}\n", i, (i+1)%api.MaxServices)
	}
	mustApply(t, b, []byte(source.String()))
	settle := func() {
		t.Helper()
		for range 3 {
			cl.current = true // as it reports
			pass(t, b.core)
		}
	}
	settle()
	shares := 0
	for key, s := range b.m.shares {
		if strings.HasPrefix(key, "edge.big.") && s.Min == 1 {
			shares++
		}
	}
	if shares != api.MaxServices || len(b.m.insts) != api.MaxServices {
		t.Fatalf("%d shares, %d instances", shares, len(b.m.insts))
	}
	list, err := store.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if len(e.Value) > wire.MaxMessageBytes {
			t.Errorf("%s has %d bytes", e.Key, len(e.Value))
		}
	}
	if err := b.Delete(t.Context(), "big"); err != nil {
		t.Fatal(err)
	}
	settle()
	if len(b.m.shares) != 0 || len(b.m.apps) != 0 || len(b.m.insts) != 0 {
		t.Errorf("%d shares, %d applications, %d instances are left", len(b.m.shares), len(b.m.apps), len(b.m.insts))
	}
}

// What a cluster gives back comes with its words, which the root stores.
func TestLongWordsAreCut(t *testing.T) {
	c := newHostileCore(t)
	rep := *c.m.clusters["good"].seen["app.web.0"]
	rep.State, rep.Reason = wire.Requested, strings.Repeat("x", 1<<20)
	c.onReport(t.Context(), "good", wire.Report{
		V: wire.Version, From: wire.Rev{Inc: "good", N: 2}, To: wire.Rev{Inc: "good", N: 3},
		Changes: []wire.Change{{Key: rep.ID, Value: encoded(t, rep)}},
	})
	pass(t, c)
	if i := c.m.insts["app.web.0"]; i.State != wire.Requested || len(i.History[len(i.History)-1].Why) > 4<<10 {
		t.Errorf("%s with %d bytes of reason", i.State, len(i.Reason))
	}
}

// A cluster that gave an instance back and then died must not keep others from
// being given it.
func TestADeadClusterKeepsNothingFromOthers(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.ticks(2, time.Second)
	s.fakes["edge"].linked = false
	i := wire.Instance{V: wire.Version, ID: "app.web.0", App: "app", Service: "web", Revision: 1, State: wire.Requested, Avoid: []string{"edge"}}
	s.m.insts[i.ID] = &i
	s.m.clusters["edge"].seen[i.ID] = &wire.Reported{Instance: i}
	s.apply("app", 1, nil)
	s.ticks(50, time.Second)
	if n := len(s.fakes["fog"].runs); n != 0 {
		t.Fatalf("%d run on the other cluster while the first may still have it", n)
	}
	s.ticks(20, time.Second)
	if n := len(s.fakes["fog"].runs); n != 1 {
		t.Fatalf("%d run on the other cluster, want 1\n%s", n, s.dump())
	}
}

// FuzzOnReport: whatever one cluster reports, the root works on and nothing of
// what another runs changes, nor where its users are sent.
func FuzzOnReport(f *testing.F) {
	for _, s := range []string{
		`{"v":1}`,
		`{"v":1,"t":{"i":"x","n":1},"c":[{"k":"app.web.0","v":{"id":"app.web.0","app":"app","service":"web","state":"Running","ready":true,"cluster":"good","address":"evil:1","peer":"p"}}]}`,
		`{"v":1,"t":{"i":"x","n":1},"c":[{"k":"app.web.1","v":{"id":"app.web.1","app":"app","service":"web","ordinal":1,"state":"Running","ready":true,"address":"evil:1"}}]}`,
		`{"v":1,"t":{"i":"x","n":1},"c":[{"k":"x","v":{"id":"app.web.0","app":"app","service":"web","state":"Requested"}},{"k":"","v":null},{"k":"app.web.0","d":true}]}`,
		`{"v":1,"s":{"workers":-1,"cpu":{"sum":1e300,"mean":-5,"dev":1e308,"max":1e308},"capacity":{"cpu":-9223372036854775808},"areas":["a"],"runtimes":["process"]},"x":-9223372036854775808}`,
		`{"v":1,"u":-9223372036854775808}`,
		`{"v":1,"s":7,"m":true,"t":{"n":1},"c":[{"k":"../..","v":{"history":[{"to":"Running"},{"to":"x"}],"id":"../..","state":"Running"}}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r wire.Report
		if json.Unmarshal(data, &r) != nil {
			t.Skip()
		}
		c := newHostileCore(t)
		look := func() string {
			return string(encoded(t, c.m.insts)) + string(encoded(t, c.m.shares)) + string(encoded(t, c.m.routes)) + string(encoded(t, c.m.appView(c.m.apps["app"])))
		}
		before := look()
		c.onReport(t.Context(), "bad", r)
		pass(t, c)
		if after := look(); after != before {
			t.Fatalf("it changed from\n%s\nto\n%s", before, after)
		}
		if _, err := json.Marshal(c.clusters()); err != nil {
			t.Fatal(err)
		}
		// A new instance still finds its place.
		app := *c.m.apps["app"]
		spec := *app.Spec.Services["web"]
		spec.Replicas = api.Replicas{Min: 2, Max: 2}
		app.Revision, app.Spec = 2, &api.Application{Application: "app", Services: map[string]*api.Service{"web": &spec}}
		c.m.apps["app"] = &app
		pass(t, c)
		if i := c.m.insts["app.web.1"]; i == nil || i.Cluster != "good" {
			t.Fatalf("the next instance is %+v", i)
		}
	})
}
