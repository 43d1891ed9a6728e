package plan

import (
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/wire"
)

// each applies f to each resource of two amounts.
func each(a, b api.Resources, f func(a, b int64) int64) api.Resources {
	return api.Resources{
		CPU: api.CPU(f(int64(a.CPU), int64(b.CPU))), Memory: api.Bytes(f(int64(a.Memory), int64(b.Memory))),
		Disk:  api.Bytes(f(int64(a.Disk), int64(b.Disk))),
		VGPUs: api.Units(f(int64(a.VGPUs), int64(b.VGPUs))), VTPUs: api.Units(f(int64(a.VTPUs), int64(b.VTPUs))),
		Bandwidth: api.Bandwidth{
			In:  api.Bitrate(f(int64(a.Bandwidth.In), int64(b.Bandwidth.In))),
			Out: api.Bitrate(f(int64(a.Bandwidth.Out), int64(b.Bandwidth.Out))),
		},
	}
}

// plus, minus and larger go below zero where more is held than there is: nothing new is admitted
// before that has been made good.
func plus(a, b api.Resources) api.Resources {
	return each(a, b, func(a, b int64) int64 { return a + b })
}

func minus(a, b api.Resources) api.Resources {
	return each(a, b, func(a, b int64) int64 { return a - b })
}

func larger(a, b api.Resources) api.Resources {
	return each(a, b, func(a, b int64) int64 { return max(a, b) })
}

// devices are the devices of a worker, and what of them is held.
type devices []device.Device

func newDevices(nodes []engineapi.DeviceNode) devices {
	list := make(devices, len(nodes))
	for i := range nodes {
		list[i].Device = nodes[i].Device
	}
	return list
}

// hold adds what an order has to what is held, or takes it off (sign -1).
func (c devices) hold(list []wire.Held, sign api.Units) {
	for _, h := range list {
		if i := slices.IndexFunc(c, func(d device.Device) bool { return d.ID == h.ID }); i >= 0 {
			c[i].Used += sign * h.Share
		}
	}
}

// most holds, of each device, the larger of two shares: what is there until it is
// replaced, and what replaces it.
func (c devices) most(a, b []wire.Held) {
	share := map[string]api.Units{}
	for _, h := range slices.Concat(a, b) {
		share[h.ID] = max(share[h.ID], h.Share)
	}
	for id, s := range share {
		c.hold([]wire.Held{{ID: id, Share: s}}, 1)
	}
}

// lack says why an order cannot have its devices, "" if it can.
func (c devices) lack(o *wire.Order) string {
	return device.Admit(c, o.Devices, o.Spec.Resources, o.Spec.Devices)
}
