package wire

import (
	"cmp"
	"slices"

	"github.com/verge-edge/verge/api"
)

// Device of a worker. A GPU or TPU may be divided among instances, any other is given
// as a whole.
type Device struct {
	// ID is unique on the worker and stays with the device: "gpu0", "camera1".
	ID   string `json:"id"`
	Type string `json:"type"`
	// Model as api.DeviceModel writes it; "" where it is not known.
	Model string `json:"model,omitempty"`
}

// Held is what an instance has of a device.
type Held struct {
	ID    string    `json:"id"`
	Share api.Units `json:"share"` // 1000: all of it
}

// DeviceNode is a device as its own machine has it.
type DeviceNode struct {
	Device
	// Paths are the nodes that whoever has the device opens, those that all devices of
	// a maker share among them.
	Paths []string `json:"paths,omitempty"`
	// Vendor is "nvidia", "amd" and so on, "" where it is not known; Index is the name by
	// which the maker's libraries choose it: a UUID, or a number.
	Vendor string `json:"vendor,omitempty"`
	Index  string `json:"index,omitempty"`
}

// Devices are the devices of nodes.
func Devices(nodes []DeviceNode) []Device {
	var out []Device
	for i := range nodes {
		out = append(out, nodes[i].Device)
	}
	return out
}

// DeviceUnits is how much a worker with these devices has of a type.
func DeviceUnits(devices []Device, typ string) api.Units {
	var n api.Units
	for i := range devices {
		if devices[i].Type == typ {
			n += 1000
		}
	}
	return n
}

// CleanDevices keeps of the devices that a worker says it has those that can be: the
// first api.MaxDevices with names and without another of the same id, in the order of
// type and id.
func CleanDevices(in []Device) []Device {
	var out []Device
	seen := map[string]bool{}
	for _, d := range in {
		d.Model = api.DeviceModel(d.Model)
		if len(out) == api.MaxDevices || seen[d.ID] || api.NameProblem(d.Type) != "" || api.NameProblem(d.ID) != "" {
			continue
		}
		seen[d.ID] = true
		out = append(out, d)
	}
	slices.SortStableFunc(out, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	return out
}
