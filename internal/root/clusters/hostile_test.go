package clusters_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/status"
	"github.com/verge-edge/verge/internal/root/views"
	"github.com/verge-edge/verge/internal/wire"
)

// What a cluster gives back comes with its words, which the root stores.
func TestLongWordsAreCut(t *testing.T) {
	c := roottest.NewRunningCore(t)
	rep := *c.M.Clusters["good"].Seen["app.web.0"]
	rep.State, rep.Reason = wire.Requested, strings.Repeat("x", 1<<20)
	clusters.OnReport(t.Context(), c, "good", wire.Report{
		V: wire.Version, From: wire.Rev{Inc: "good", N: 2}, To: wire.Rev{Inc: "good", N: 3},
		Changes: []wire.Change{{Key: rep.ID, Value: roottest.JSON(t, rep)}},
	})
	roottest.Pass(t, c)
	if i := c.M.Insts["app.web.0"]; i.State != wire.Requested || len(i.History[len(i.History)-1].Why) > 4<<10 {
		t.Errorf("%s with %d bytes of reason", i.State, len(i.Reason))
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
		c := roottest.NewRunningCore(t)
		look := func() string {
			return string(roottest.JSON(t, c.M.Insts)) + string(roottest.JSON(t, c.M.Shares)) + string(roottest.JSON(t,
				c.M.Routes)) +
				string(roottest.JSON(t, status.Application(c.M, c.M.Apps["app"])))
		}
		before := look()
		clusters.OnReport(t.Context(), c, "bad", r)
		roottest.Pass(t, c)
		if after := look(); after != before {
			t.Fatalf("it changed from\n%s\nto\n%s", before, after)
		}
		if _, err := json.Marshal(views.Clusters(c)); err != nil {
			t.Fatal(err)
		}
		// A new instance still finds its place.
		app := *c.M.Apps["app"]
		spec := *app.Spec.Services["web"]
		spec.Replicas = api.Replicas{Min: 2, Max: 2}
		app.Revision, app.Spec = 2, &api.Application{Application: "app",
			Services: map[string]*api.Service{"web": &spec}}
		c.M.Apps["app"] = &app
		roottest.Pass(t, c)
		if i := c.M.Insts["app.web.1"]; i == nil || i.Cluster != "good" {
			t.Fatalf("the next instance is %+v", i)
		}
	})
}
