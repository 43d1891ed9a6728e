package placement_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster that gave an instance back and then died must not keep others from
// being given it.
func TestADeadClusterKeepsNothingFromOthers(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Ticks(2, time.Second)
	s.Clusters["edge"].Linked = false
	i := wire.Instance{V: wire.Version, ID: "app.web.0", App: "app", Service: "web", Revision: 1,
		State: wire.Requested, PlacementHistory: wire.PlacementHistory{Avoid: []string{"edge"}}}
	s.Model.Insts[i.ID] = &i
	s.Model.Clusters["edge"].Seen[i.ID] = &wire.Reported{Instance: i}
	s.Apply("app", 1, nil)
	s.Ticks(50, time.Second)
	if n := len(s.Clusters["fog"].Running); n != 0 {
		t.Fatalf("%d run on the other cluster while the first may still have it", n)
	}
	s.Ticks(20, time.Second)
	if n := len(s.Clusters["fog"].Running); n != 1 {
		t.Fatalf("%d run on the other cluster, want 1\n%s", n, s.Dump())
	}
}
