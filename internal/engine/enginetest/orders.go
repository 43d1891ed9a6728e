// Package enginetest has orders for the tests of an engine's parts.
package enginetest

import (
	"fmt"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// Order is an order of shop.web.<ordinal> that needs cpu.
func Order(ordinal, incarnation int, cpu api.CPU) wire.Order {
	return wire.Order{
		V: wire.Version, ID: fmt.Sprintf("shop.web.%d", ordinal), App: "shop", Service: "web",
		Ordinal: ordinal, Incarnation: incarnation, Revision: 1,
		Spec: &api.Service{
			Command:   []string{"web"},
			Resources: api.Resources{CPU: cpu},
			Ports:     []api.Port{{Name: "http", Protocol: "http"}},
		},
	}
}

// Nodes are the devices of a worker: two GPUs and a camera.
func Nodes() []engineapi.DeviceNode {
	node := func(id, typ, vendor, index string, paths ...string) engineapi.DeviceNode {
		return engineapi.DeviceNode{Device: wire.Device{ID: id, Type: typ}, Vendor: vendor, Index: index, Paths: paths}
	}
	return []engineapi.DeviceNode{
		node("gpu0", "gpu", "nvidia", "GPU-a", "/dev/nvidia0", "/dev/nvidiactl"),
		node("gpu1", "gpu", "nvidia", "GPU-b", "/dev/nvidia1", "/dev/nvidiactl"),
		node("camera0", "camera", "", "", "/dev/video0"),
	}
}

// WithDevices is an order with what it needs and what it was given.
func WithDevices(ordinal, incarnation int, demand api.Units, cameras int, held ...wire.Held) wire.Order {
	o := Order(ordinal, incarnation, 100)
	o.Spec.Resources.VGPUs, o.Devices = demand, held
	if cameras > 0 {
		o.Spec.Devices = []api.DeviceNeed{{Type: "camera", Count: cameras}}
	}
	return o
}
