// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package root

import (
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// owned applies an application of a namespace.
func (s *sim) owned(namespace, name string, replicas, priority int) {
	s.apply(name, replicas, func(v *api.Service) { v.Priority = priority })
	s.m.apps[name].Spec.Namespace = namespace
	s.store(keyApp+name, s.m.apps[name])
}

// stands gives a namespace its standing.
func (s *sim) stands(namespace string, standing wire.Standing) {
	s.m.namespaces[namespace] = &wire.Namespace{V: wire.Version, Name: namespace, Standing: standing}
}

// What is left goes to who has the higher priority, whatever the names.
func TestPriorityComesFirst(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.sized = true
	s.fakes["edge"].room, s.fakes["fog"].room = 2, 1
	s.tick(time.Second)
	s.owned("", "aaa", 3, 0)
	s.owned("", "mmm", 2, 3)
	s.owned("", "zzz", 2, 5)
	s.ticks(3, time.Second)
	if a, m, z := s.running("aaa"), s.running("mmm"), s.running("zzz"); a != 0 || m != 1 || z != 2 {
		t.Errorf("%d of aaa, %d of mmm, %d of zzz\n%s", a, m, z, s.dump())
	}
}

// What must be near a service needs that one first, however little it is worth.
func TestPriorityIsInherited(t *testing.T) {
	s := newSim(t, "edge")
	s.sized = true
	s.fakes["edge"].room = 2
	s.tick(time.Second)
	s.owned("", "bbb", 2, 1)
	s.apply("shop", 1, func(v *api.Service) { v.Priority = 5 })
	spec := s.m.apps["shop"].Spec
	db := *spec.Services["web"]
	db.Priority = 0
	spec.Services["db"] = &db
	spec.Services["web"].Latency = []api.Latency{{To: "db", Max: api.Duration(20 * time.Millisecond)}}
	s.store(keyApp+"shop", s.m.apps["shop"])
	s.ticks(3, time.Second)
	if n := s.running("shop"); n != 2 || s.running("bbb") != 0 {
		t.Errorf("%d of shop, %d of bbb\n%s", n, s.running("bbb"), s.dump())
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
		s := newSim(t, "edge", "fog")
		s.sized = true
		s.fakes["edge"].room, s.fakes["fog"].room = c.room/2, c.room/2
		s.stands("x", c.xs)
		s.stands("y", wire.Standing{})
		s.tick(time.Second)
		s.owned("y", "aaa", 4, 0)
		s.owned("y", "bbb", 5, 0)
		s.owned("x", "zzz", 7, c.priority)
		s.ticks(4, time.Second)
		if x, y := s.running("zzz"), s.running("aaa")+s.running("bbb"); x != c.x || y != c.y {
			t.Errorf("%s: %d of x, %d of y\n%s", c.what, x, y, s.dump())
		}
	}
}

// What runs counts: who has less is given what becomes free.
func TestWhatRunsCounts(t *testing.T) {
	s := newSim(t, "edge")
	s.sized = true
	s.fakes["edge"].room = 6
	s.tick(time.Second)
	s.owned("x", "old", 6, 0)
	s.ticks(2, time.Second)
	s.owned("x", "aaa", 4, 0)
	s.owned("y", "zzz", 4, 0)
	s.ticks(2, time.Second)
	s.delete("old")
	s.ticks(120, time.Second)
	if x, y := s.running("aaa"), s.running("zzz"); x+y != 6 || y < 3 {
		t.Errorf("%d of x, %d of y\n%s", x, y, s.dump())
	}
}

// Who was refused before others came does not lose to them, when there is room again, what
// it has the better claim to.
func TestWhoWaitedIsNotLate(t *testing.T) {
	s := newSim(t, "edge")
	s.sized = true
	f := s.fakes["edge"]
	f.room, f.boasts = 4, 1 // it says that there is room for one more than there is, and refuses
	s.owned("", "base", 4, 0)
	s.ticks(2, time.Second)
	s.owned("", "zzz", 2, 5)
	s.ticks(2, time.Second) // refused, and not asked for 10 s
	f.boasts = 0
	s.ticks(2, time.Second)
	for n := range 3 {
		s.owned("", fmt.Sprint("aaa", n), 2, 0)
	}
	s.tick(time.Second)
	s.delete("base")
	s.ticks(4, time.Second)
	if n := s.running("zzz"); n != 2 {
		t.Errorf("%d of zzz\n%s", n, s.dump())
	}
}
