package memtable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
)

// The revision below prefixes is the newest of what is there, whatever was asked before,
// written, removed and forgotten since.
func TestRevisionsBelowPrefixes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	m := New()
	prefixes := []string{"share.", "share.a.", "share.b.", "route.", "route.x", "object/", "object/shop/", "none.", "share.a", ""}
	for rev := uint64(1); rev < 3000; rev++ {
		key := []string{"share.a.", "share.b.", "route.x", "route.y.", "object/shop/m.", "other."}[r.IntN(6)] + fmt.Sprint(r.IntN(20))
		m.Apply([]bus.Entry{{Key: key, Rev: rev, Deleted: r.IntN(3) == 0}}, nil)
		if r.IntN(50) == 0 {
			m.trim(r.IntN(10), 1)
		}
		var some []string
		for range r.IntN(4) {
			some = append(some, prefixes[r.IntN(len(prefixes))])
		}
		var want uint64
		for _, it := range m.index.sorted {
			if hasAnyPrefix(it.Key, some) {
				want = max(want, it.Rev)
			}
		}
		if got := m.Rev(some); got != want {
			t.Fatalf("at %d below %q: %d, want %d", rev, some, got, want)
		}
	}
	if len(m.index.revs) == 0 || slices.ContainsFunc(prefixes, func(p string) bool { _, kept := m.index.revs[p]; return kept && (p == "" || !ends(p[len(p)-1])) }) {
		t.Errorf("kept: %v", m.index.revs)
	}
}
