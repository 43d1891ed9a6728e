package engine

import (
	"testing"

	"github.com/verge-edge/verge/internal/engine/enginetest"
	"github.com/verge-edge/verge/internal/engine/plan"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// A device that is added while the engine runs can be had from then on; what makes no sense
// changes nothing.
func TestAnAddedDeviceCanBeHad(t *testing.T) {
	t.Parallel()
	k := &deps{config: engineapi.EngineConfig{Devices: enginetest.Nodes()[:1],
		Capacity: api.Resources{CPU: 1000, VGPUs: 1000}}}
	loaded := make(chan struct{})
	close(loaded)
	e := &Engine{deps: k, loaded: loaded}
	plug := func(list ...engineapi.DeviceNode) error {
		return e.Plug(t.Context(), engineapi.EngineDevices{V: wire.Version, Devices: list})
	}
	for range 2 { // it is told again after a restart of the agent
		if err := plug(enginetest.Nodes()...); err != nil {
			t.Fatal(err)
		}
	}
	if got := k.devices(); len(got) != 3 || got[1].ID != "gpu1" || got[2].Paths[0] != "/dev/video0" ||
		k.capacity() != (api.Resources{CPU: 1000, VGPUs: 2000}) {
		t.Errorf("%+v with %+v", got, k.capacity())
	}
	other := enginetest.Nodes()[0]
	other.Paths = []string{"/dev/other"}
	if err := plug(other); err != nil || k.devices()[0].Paths[0] != "/dev/nvidia0" {
		t.Errorf("%v, %+v", err, k.devices()[0])
	}
	nameless := enginetest.Nodes()[0]
	nameless.ID = ""
	for _, bad := range [][]engineapi.DeviceNode{{nameless}, {other, other},
		make([]engineapi.DeviceNode, api.MaxDevices+1)} {
		if err := plug(bad...); err == nil || len(k.devices()) != 3 {
			t.Errorf("%d devices: %v", len(bad), err)
		}
	}
	o := enginetest.WithDevices(0, 1, 0, 1, wire.Held{ID: "camera0", Share: 1000})
	w := plan.World{Orders: []wire.Order{o}, Known: true, Devices: k.devices(), Capacity: k.capacity(),
		Runtimes: []string{"process"}}
	if g := plan.Goals(w)[o.ID]; g.Kind != plan.Run {
		t.Errorf("%s: %s", g.Kind, g.Why)
	}
}
