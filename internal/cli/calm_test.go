package cli

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// A crash loop holds for a moment after each start. Who waits for it is not told so.
func TestAMomentBetweenRestartsIsNoHold(t *testing.T) {
	t.Parallel()
	start := time.Unix(1e9, 0)
	list := func(restarts int) []wire.InstanceView {
		return []wire.InstanceView{{Instance: wire.Instance{AllRestarts: restarts}}}
	}
	type step struct {
		at       time.Duration
		restarts int
		holds    bool
		want     bool
	}
	for name, c := range map[string]struct {
		fresh bool
		steps []step
	}{
		"at once":          {true, []step{{0, 0, false, false}, {time.Second, 0, true, true}}},
		"a crash loop":     {true, []step{{0, 2, true, false}, {calmFor - 1, 3, true, false}, {2*calmFor - 2, 3, true, false}, {2 * calmFor, 4, false, false}, {3 * calmFor, 4, true, false}}},
		"it works at last": {true, []step{{0, 2, true, false}, {calmFor, 2, true, true}}},
		"of before":        {false, []step{{0, 7, true, true}}},
		"since":            {false, []step{{0, 7, false, false}, {1, 8, true, false}, {calmFor + 1, 8, true, true}}},
	} {
		quiet := calm{fresh: c.fresh}
		for i, s := range c.steps {
			if got := quiet.look(list(s.restarts), s.holds, start.Add(s.at)); got != s.want {
				t.Errorf("%s, step %d: %v", name, i, got)
			}
		}
	}
}
