package environment

import (
	"maps"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// Variables that tell an instance its devices.
const (
	envDevices = "VERGE_DEVICES" // their ids, "gpu0,camera1"
	envDevice  = "VERGE_DEVICE_" // + type: their nodes, "/dev/nvidia0:/dev/nvidiactl"
	envNvidia  = "NVIDIA_VISIBLE_DEVICES"
	envCUDA    = "CUDA_VISIBLE_DEVICES"
	envROCR    = "ROCR_VISIBLE_DEVICES"
)

// Devices are the devices of an order that are on this machine.
func Devices(o *wire.Order, nodes []engineapi.DeviceNode) []engineapi.DeviceNode {
	var out []engineapi.DeviceNode
	for _, h := range o.Devices {
		if i := slices.IndexFunc(nodes, func(n engineapi.DeviceNode) bool { return n.ID == h.ID }); i >= 0 {
			out = append(out, nodes[i])
		}
	}
	return out
}

// Paths are the nodes of devices, each once.
func Paths(nodes []engineapi.DeviceNode) []string {
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

// deviceEnv are the variables that tell an instance its devices, ours and those of the vendors.
// If the worker has devices of a vendor and the instance has none of them, that vendor's variable
// is empty, unless the descriptor sets it: a library takes all devices by default.
func deviceEnv(o *wire.Order, nodes []engineapi.DeviceNode) map[string]string {
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
	byType, chosen := map[string][]engineapi.DeviceNode{}, map[string][]string{}
	for _, n := range Devices(o, nodes) {
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
		env[envDevice+strings.ToUpper(strings.ReplaceAll(typ, "-", "_"))] = strings.Join(Paths(list), ":")
	}
	for name := range maps.Clone(env) {
		if _, own := o.Spec.Env[name]; own {
			delete(env, name)
		}
	}
	return env
}
