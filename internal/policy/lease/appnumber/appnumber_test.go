package appnumber

import (
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

func TestApplicationNumbers(t *testing.T) {
	used := map[uint32]bool{}
	n, next := Next(1, func(n uint32) bool { return used[n] })
	if n != 1 || next != 2 {
		t.Errorf("the first is %d, then %d", n, next)
	}
	if n, next = Next(wire.MaxRootApp, func(uint32) bool { return false }); n != wire.MaxRootApp || next != 1 {
		t.Errorf("the last is %d, then %d", n, next)
	}
	if n, _ = Next(7, func(uint32) bool { return true }); n != 0 {
		t.Errorf("%d was given where all are used", n)
	}
	seen := map[uint32]bool{}
	for _, index := range []uint32{1, 2, wire.MaxClusterIndex} {
		at := uint32(0)
		for range wire.SiteApps {
			var n uint32
			n, at = NextAtSite(index, at, func(n uint32) bool { return seen[n] })
			if n == 0 || seen[n] || n <= wire.MaxRootApp || n >= 1<<24 || SiteOf(n) != index || !SiteOwns(index, n) || SiteOwns(index+1, n) {
				t.Fatalf("cluster %d gives %d", index, n)
			}
			seen[n] = true
		}
		if n, _ := NextAtSite(index, at, func(n uint32) bool { return seen[n] }); n != 0 {
			t.Errorf("cluster %d gives %d beyond all of its own", index, n)
		}
	}
	if n, _ := NextAtSite(0, 0, func(uint32) bool { return false }); n != 0 || SiteOf(5) != 0 || SiteOwns(0, 1<<23) {
		t.Error("a cluster without an index gives numbers")
	}
}
