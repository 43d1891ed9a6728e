package engine

import (
	"maps"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	placing "github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// each applies f to each resource of two amounts.
func each(a, b api.Resources, f func(a, b int64) int64) api.Resources {
	return api.Resources{
		CPU: api.CPU(f(int64(a.CPU), int64(b.CPU))), Memory: api.Bytes(f(int64(a.Memory), int64(b.Memory))), Disk: api.Bytes(f(int64(a.Disk), int64(b.Disk))),
		VGPUs: api.Units(f(int64(a.VGPUs), int64(b.VGPUs))), VTPUs: api.Units(f(int64(a.VTPUs), int64(b.VTPUs))),
		Bandwidth: api.Bandwidth{
			In:  api.Bitrate(f(int64(a.Bandwidth.In), int64(b.Bandwidth.In))),
			Out: api.Bitrate(f(int64(a.Bandwidth.Out), int64(b.Bandwidth.Out))),
		},
	}
}

// plus, minus and larger go below zero where more is held than there is: what shrank
// has to be made good before anything new is admitted.
func plus(a, b api.Resources) api.Resources {
	return each(a, b, func(a, b int64) int64 { return a + b })
}

func minus(a, b api.Resources) api.Resources {
	return each(a, b, func(a, b int64) int64 { return a - b })
}

func larger(a, b api.Resources) api.Resources {
	return each(a, b, func(a, b int64) int64 { return max(a, b) })
}

// cards are the devices of a worker, and what of them is held.
type cards []placing.Device

func newCards(nodes []wire.DeviceNode) cards {
	list := make(cards, len(nodes))
	for i := range nodes {
		list[i].Device = nodes[i].Device
	}
	return list
}

// hold adds what an order has to what is held, or takes it off (sign -1).
func (c cards) hold(list []wire.Held, sign api.Units) {
	for _, h := range list {
		if i := slices.IndexFunc(c, func(d placing.Device) bool { return d.ID == h.ID }); i >= 0 {
			c[i].Used += sign * h.Share
		}
	}
}

// most holds, of each device, the larger of two shares: what is there until it is
// replaced, and what replaces it.
func (c cards) most(a, b []wire.Held) {
	share := map[string]api.Units{}
	for _, h := range slices.Concat(a, b) {
		share[h.ID] = max(share[h.ID], h.Share)
	}
	for id, s := range share {
		c.hold([]wire.Held{{ID: id, Share: s}}, 1)
	}
}

// lack says why an order cannot have its devices, "" if it can.
func (c cards) lack(o *wire.Order) string {
	return placing.Admit(c, o.Devices, o.Spec.Resources, o.Spec.Devices)
}

// Variables by which an instance finds its devices.
const (
	envDevices = "VERGE_DEVICES" // their ids, "gpu0,camera1"
	envDevice  = "VERGE_DEVICE_" // + type: their nodes, "/dev/nvidia0:/dev/nvidiactl"
	envNvidia  = "NVIDIA_VISIBLE_DEVICES"
	envCUDA    = "CUDA_VISIBLE_DEVICES"
	envROCR    = "ROCR_VISIBLE_DEVICES"
)

// nodesOf are the devices of an order that are on this machine.
func nodesOf(o *wire.Order, nodes []wire.DeviceNode) []wire.DeviceNode {
	var out []wire.DeviceNode
	for _, h := range o.Devices {
		if i := slices.IndexFunc(nodes, func(n wire.DeviceNode) bool { return n.ID == h.ID }); i >= 0 {
			out = append(out, nodes[i])
		}
	}
	return out
}

// pathsOf are the nodes of devices, each once.
func pathsOf(nodes []wire.DeviceNode) []string {
	var out []string
	for i := range nodes {
		for _, p := range nodes[i].Paths {
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// deviceEnv tells an instance which devices it has, in our words and in those of the
// libraries of their makers. An instance that has none of a maker on a worker that has
// some is told so, where its descriptor does not say otherwise: a library that is told
// nothing takes what there is.
func deviceEnv(o *wire.Order, nodes []wire.DeviceNode) map[string]string {
	if len(nodes) == 0 || state.RuntimeOf(o) == api.Wasm {
		return nil
	}
	env := map[string]string{}
	byMaker := map[string][]string{"nvidia": {envNvidia, envCUDA}, "amd": {envROCR}}
	for i := range nodes {
		switch nodes[i].Vendor {
		case "nvidia":
			env[envNvidia], env[envCUDA] = "none", ""
		case "amd":
			env[envROCR] = ""
		}
	}
	var ids []string
	byType, chosen := map[string][]wire.DeviceNode{}, map[string][]string{}
	for _, n := range nodesOf(o, nodes) {
		ids = append(ids, n.ID)
		byType[n.Type] = append(byType[n.Type], n)
		if n.Type == api.DeviceGPU && n.Index != "" {
			chosen[n.Vendor] = append(chosen[n.Vendor], n.Index)
		}
	}
	for maker, list := range chosen {
		for _, name := range byMaker[maker] {
			env[name] = strings.Join(list, ",")
		}
	}
	if len(ids) > 0 {
		env[envDevices] = strings.Join(ids, ",")
	}
	for typ, list := range byType {
		env[envDevice+strings.ToUpper(strings.ReplaceAll(typ, "-", "_"))] = strings.Join(pathsOf(list), ":")
	}
	for name := range maps.Clone(env) {
		if _, own := o.Spec.Env[name]; own {
			delete(env, name)
		}
	}
	return env
}
