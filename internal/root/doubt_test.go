package root

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
)

// A root that hears of no cluster is cut off itself: nobody's instances are given
// to whoever happens to be heard first.
func TestACutOffRootReplacesNothing(t *testing.T) {
	b := newTestBackend(t, bus.NewMemStore())
	c := b.core
	now := time.Now()
	for _, name := range []string{"edge", "fog"} {
		c.m.clusters[name] = newCluster(clusterRecord{Name: name}, now)
	}
	heard := func(names ...string) {
		t.Helper()
		for _, name := range names {
			cl := c.m.clusters[name]
			cl.heard, cl.everHeard, cl.connected, cl.lambda = now, true, true, time.Second
		}
		c.judge(now)
		c.planned = time.Second
		now = now.Add(time.Second)
	}
	dead := func(name string) bool { return c.m.dead(c.m.clusters[name], now) && !c.m.alone }
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
