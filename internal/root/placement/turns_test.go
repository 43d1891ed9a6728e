package placement_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// owned applies an application of a namespace.
func owned(s *roottest.Sim, namespace, name string, replicas, priority int) {
	s.Apply(name, replicas, func(v *api.Service) { v.Priority = priority })
	s.Model.Apps[name].Spec.Namespace = namespace
	s.Store(state.KeyApp+name, s.Model.Apps[name])
}

// stands gives a namespace its standing.
func stands(s *roottest.Sim, namespace string, standing wire.Standing) {
	s.Model.Namespaces[namespace] = &record.Namespace{V: wire.Version, Name: namespace, Standing: standing}
}

// What is left goes to who has the higher priority, whatever the names.
func TestPriorityComesFirst(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Sized = true
	s.Clusters["edge"].Room, s.Clusters["fog"].Room = 2, 1
	s.Tick(time.Second)
	owned(s, "", "aaa", 3, 0)
	owned(s, "", "mmm", 2, 3)
	owned(s, "", "zzz", 2, 5)
	s.Ticks(3, time.Second)
	if a, m, z := s.Running("aaa"), s.Running("mmm"), s.Running("zzz"); a != 0 || m != 1 || z != 2 {
		t.Errorf("%d of aaa, %d of mmm, %d of zzz\n%s", a, m, z, s.Dump())
	}
}

// What must be near a service needs that one first, however little it is worth.
func TestPriorityIsInherited(t *testing.T) {
	s := roottest.NewSim(t, "edge")
	s.Sized = true
	s.Clusters["edge"].Room = 2
	s.Tick(time.Second)
	owned(s, "", "bbb", 2, 1)
	s.Apply("shop", 1, func(v *api.Service) { v.Priority = 5 })
	spec := s.Model.Apps["shop"].Spec
	db := *spec.Services["web"]
	db.Priority = 0
	spec.Services["db"] = &db
	spec.Services["web"].Latency = []api.Latency{{To: "db", Max: api.Duration(20 * time.Millisecond)}}
	s.Store(state.KeyApp+"shop", s.Model.Apps["shop"])
	s.Ticks(3, time.Second)
	if n := s.Running("shop"); n != 2 || s.Running("bbb") != 0 {
		t.Errorf("%d of shop, %d of bbb\n%s", n, s.Running("bbb"), s.Dump())
	}
}

// Namespaces get by their weights what there is not enough of, and a priority that counts
// against others comes before that; with room for all everybody has all.
func TestNamespacesShareByWeight(t *testing.T) {
	for _, c := range []struct {
		what     string
		room     int
		xs       wire.Standing
		priority int // of x
		x, y     int
	}{
		{"even", 8, wire.Standing{}, 0, 4, 4},
		{"three times the weight", 8, wire.Standing{Weight: 3}, 0, 6, 2},
		{"a priority at home", 8, wire.Standing{}, 900, 4, 4},
		{"a priority over others", 8, wire.Standing{MaxPriority: 10}, 900, 7, 1},
		{"room for all", 20, wire.Standing{Weight: 3}, 0, 7, 9},
	} {
		s := roottest.NewSim(t, "edge", "fog")
		s.Sized = true
		s.Clusters["edge"].Room, s.Clusters["fog"].Room = c.room/2, c.room/2
		stands(s, "x", c.xs)
		stands(s, "y", wire.Standing{})
		s.Tick(time.Second)
		owned(s, "y", "aaa", 4, 0)
		owned(s, "y", "bbb", 5, 0)
		owned(s, "x", "zzz", 7, c.priority)
		s.Ticks(4, time.Second)
		if x, y := s.Running("zzz"), s.Running("aaa")+s.Running("bbb"); x != c.x || y != c.y {
			t.Errorf("%s: %d of x, %d of y\n%s", c.what, x, y, s.Dump())
		}
	}
}

// What runs counts: who has less is given what becomes free.
func TestWhatRunsCounts(t *testing.T) {
	s := roottest.NewSim(t, "edge")
	s.Sized = true
	s.Clusters["edge"].Room = 6
	s.Tick(time.Second)
	owned(s, "x", "old", 6, 0)
	s.Ticks(2, time.Second)
	owned(s, "x", "aaa", 4, 0)
	owned(s, "y", "zzz", 4, 0)
	s.Ticks(2, time.Second)
	s.Delete("old")
	s.Ticks(120, time.Second)
	if x, y := s.Running("aaa"), s.Running("zzz"); x+y != 6 || y < 3 {
		t.Errorf("%d of x, %d of y\n%s", x, y, s.Dump())
	}
}

// Who was refused before others came does not lose to them, when there is room again, what
// it has the better claim to.
func TestWhoWaitedIsNotLate(t *testing.T) {
	s := roottest.NewSim(t, "edge")
	s.Sized = true
	f := s.Clusters["edge"]
	f.Room, f.ClaimedRoom = 4, 1 // it says that there is room for one more than there is, and refuses
	owned(s, "", "base", 4, 0)
	s.Ticks(2, time.Second)
	owned(s, "", "zzz", 2, 5)
	s.Ticks(2, time.Second) // refused, and not asked for 10 s
	f.ClaimedRoom = 0
	s.Ticks(2, time.Second)
	for n := range 3 {
		owned(s, "", fmt.Sprint("aaa", n), 2, 0)
	}
	s.Tick(time.Second)
	s.Delete("base")
	s.Ticks(4, time.Second)
	if n := s.Running("zzz"); n != 2 {
		t.Errorf("%d of zzz\n%s", n, s.Dump())
	}
}
