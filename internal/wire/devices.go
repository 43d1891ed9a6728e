package wire

import (
	"cmp"
	"slices"

	"github.com/verge-edge/verge/api"
)

// Device of a worker. Instances may share a GPU or TPU; any other has one user.
type Device struct {
	// ID is unique on the worker and stays with the device: "gpu0", "camera1".
	ID   string `json:"id"`
	Type string `json:"type"`
	// Model as api.DeviceModel writes it; "" if not known.
	Model string `json:"model,omitempty"`
}

// Held is what an instance has of a device.
type Held struct {
	ID    string    `json:"id"`
	Share api.Units `json:"share"` // 1000: all of it
}

// DeviceUnits returns how much of a type these devices have together.
func DeviceUnits(devices []Device, typ string) api.Units {
	var n api.Units
	for i := range devices {
		if devices[i].Type == typ {
			n += 1000
		}
	}
	return n
}

// CleanDevices returns the valid ones of a worker's devices: the first api.MaxDevices with
// valid names and distinct ids, sorted by type and id.
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
