package plan

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/engine/enginetest"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// What a cluster gives of the devices is checked where they are: a cluster that was
// told something else, or errs, does no harm.
func TestDevicesAreAdmitted(t *testing.T) {
	t.Parallel()
	half0 := wire.Held{ID: "gpu0", Share: 500}
	running := enginetest.WithDevices(0, 1, 500, 0, half0)
	for name, c := range map[string]struct {
		order wire.Order
		want  string // "" runs
	}{
		"the other half": {enginetest.WithDevices(1, 1, 500, 0, half0), ""},
		"more than the rest": {enginetest.WithDevices(1, 1, 700, 0, wire.Held{ID: "gpu0", Share: 700}),
			"needs 0.7 of device gpu0, 0.5 free"},
		"another card": {enginetest.WithDevices(1, 1, 1000, 0, wire.Held{ID: "gpu1", Share: 1000}), ""},
		"no such card": {enginetest.WithDevices(1, 1, 1000, 0, wire.Held{ID: "gpu7", Share: 1000}),
			"device gpu7, which is not on this worker"},
		"none given": {enginetest.WithDevices(1, 1, 500, 0),
			"was not given the devices that it needs: needs 0.5 of a gpu"},
		"two cameras of one": {enginetest.WithDevices(1, 1, 0, 2, wire.Held{ID: "camera0", Share: 1000}),
			"needs 2 cameras, 1 free"},
		"itself, replaced": {enginetest.WithDevices(0, 2, 1000, 0, wire.Held{ID: "gpu0", Share: 1000}), ""},
	} {
		w := World{
			Orders: []wire.Order{running, c.order}, Known: true, Devices: enginetest.Nodes(),
			Runtimes: []string{"process"},
			Capacity: api.Resources{CPU: 1000, VGPUs: 2000},
			Present:  map[wire.InstanceID]Present{running.ID: {Order: running, Holds: true}},
		}
		if c.order.ID == running.ID {
			w.Orders = w.Orders[1:]
		}
		g := Goals(w)[c.order.ID]
		if got := g.Kind == Run; got != (c.want == "") || !strings.Contains(g.Why, c.want) {
			t.Errorf("%s: %s %q, want %q", name, g.Kind, g.Why, c.want)
		}
		if first := Goals(w)[running.ID]; first.Kind != Run {
			t.Errorf("%s: what runs gets %s (%s)", name, first.Kind, first.Why)
		}
	}
	// Two that come at once do not get the same.
	a, b := enginetest.WithDevices(1, 1, 600, 0, wire.Held{ID: "gpu1", Share: 600}),
		enginetest.WithDevices(2, 1, 600, 0, wire.Held{ID: "gpu1", Share: 600})
	goals := Goals(World{Orders: []wire.Order{a, b}, Known: true, Devices: enginetest.Nodes(),
		Runtimes: []string{"process"}, Capacity: api.Resources{CPU: 1000, VGPUs: 2000}})
	if goals[a.ID].Kind != Run || goals[b.ID].Kind != Refuse {
		t.Errorf("%+v and %+v", goals[a.ID], goals[b.ID])
	}
}
