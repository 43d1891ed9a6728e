package pace_test

import (
	"testing"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/pace"
	"github.com/verge-edge/verge/internal/wire"
)

// Where the last pass left nothing under way, what is heard wakes the fast path and is noted
// for it; else it wakes the controller.
func TestNoteHeard(t *testing.T) {
	for name, tc := range map[string]struct{ loop, steady, fast bool }{
		"no loop for it":         {false, true, false},
		"something is under way": {true, false, false},
		"nothing is under way":   {true, true, true},
	} {
		c := clustertest.NewCore(t, bustest.NewMemStore())
		for len(c.Wake) > 0 {
			<-c.Wake
		}
		if c.HeardWake = nil; tc.loop {
			c.HeardWake = make(chan struct{}, 1)
		}
		pace.Memory(c.M).Steady = tc.steady
		pace.NoteHeard(c, []wire.InstanceID{"app.web.0"})
		if fast := len(c.HeardWake) == 1; fast != tc.fast || len(c.Wake) == 1 == tc.fast ||
			pace.Memory(c.M).HeardOf["app.web.0"] != tc.fast {
			t.Errorf("%s: fast path %v, controller %v, noted %v", name, fast, len(c.Wake) == 1,
				pace.Memory(c.M).HeardOf)
		}
	}
}
