// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package promises

import (
	"testing"

	"github.com/verge-edge/verge/api"
)

// In virtual time the bounds hold with three seeds, and a policy that is blind to load misses them.
func TestTailsBounds(t *testing.T) {
	for _, c := range []struct {
		policy string
		meets  bool
	}{{api.PolicyFastest, true}, {api.PolicyRoundRobin, false}} {
		for seed := range uint64(3) {
			s := tailsScene([]string{"a", "b", "c", "d"}, false, 100+seed)
			ours, err := s.Virtually(c.policy)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := s.Virtually(api.PolicyLeastConnections)
			if err != nil {
				t.Fatal(err)
			}
			g := growthOf(ours, theirs, s.Warm, s.Span)
			t.Logf("%s, seed %d: growth %.3f, mean %.3f of the other's", c.policy, seed, g.over, g.mean)
			if (g.over <= mostGrowth && g.mean <= mostOver) != c.meets {
				t.Errorf("%s, seed %d: it meets the bounds: %v", c.policy, seed, !c.meets)
			}
		}
	}
}
