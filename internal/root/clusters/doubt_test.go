package clusters_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
)

// A root that hears of no cluster is cut off itself: nobody's instances are given
// to whoever happens to be heard first.
func TestACutOffRootReplacesNothing(t *testing.T) {
	c := roottest.NewCore(t, bustest.NewMemStore())
	now := time.Now()
	for _, name := range []string{"edge", "fog"} {
		c.M.Clusters[name] = state.NewCluster(state.ClusterRecord{Name: name}, now)
	}
	heard := func(names ...string) {
		t.Helper()
		for _, name := range names {
			cl := c.M.Clusters[name]
			cl.Heard, cl.EverHeard, cl.Connected, cl.Interval = now, true, true, time.Second
		}
		clusters.Judge(c, now)
		c.Planned = time.Second
		now = now.Add(time.Second)
	}
	dead := func(name string) bool { return c.M.Dead(c.M.Clusters[name], now) && !c.M.Alone }
	heard("edge", "fog")
	for range 200 {
		heard()
		if dead("edge") || dead("fog") {
			t.Fatal("it takes both for dead, and hears of nobody")
		}
	}
	for range 60 {
		heard("edge")
		if dead("fog") {
			t.Fatal("the second to come back has no time to do so")
		}
	}
	for range 20 {
		heard("edge")
	}
	if !dead("fog") {
		t.Error("it did not come back, and is not taken for dead")
	}
}
