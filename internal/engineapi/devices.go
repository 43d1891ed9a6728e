package engineapi

import "github.com/verge-edge/verge/internal/wire"

// DeviceNode is a device as its own machine has it.
type DeviceNode struct {
	wire.Device
	// Paths are the nodes that whoever has the device opens, those that all devices of
	// a maker share among them.
	Paths []string `json:"paths,omitempty"`
	// Vendor is "nvidia", "amd" and so on, "" where it is not known; Index is the name by
	// which the maker's libraries choose it: a UUID, or a number.
	Vendor string `json:"vendor,omitempty"`
	Index  string `json:"index,omitempty"`
}

// Devices are the devices of nodes.
func Devices(nodes []DeviceNode) []wire.Device {
	var out []wire.Device
	for i := range nodes {
		out = append(out, nodes[i].Device)
	}
	return out
}
