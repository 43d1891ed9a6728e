package engine

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// devices of this worker, those among them that were added since the engine was started.
func (k *deps) devices() []engineapi.DeviceNode {
	if added := k.plugged.Load(); added != nil {
		return slices.Concat(k.config.Devices, *added)
	}
	return k.config.Devices
}

// capacity of this worker with its devices.
func (k *deps) capacity() api.Resources {
	c := k.config.Capacity
	if added := k.plugged.Load(); added != nil {
		list := engineapi.Devices(*added)
		c.VGPUs += wire.DeviceUnits(list, api.DeviceGPU)
		c.VTPUs += wire.DeviceUnits(list, api.DeviceTPU)
	}
	return c
}

// Plug lets instances have devices that have been added to the machine. Those that the
// engine knows stay as they are: what runs has them. The agent has them in the
// configuration for the next engine.
func (e *Engine) Plug(ctx context.Context, d engineapi.EngineDevices) error {
	if err := e.wait(ctx); err != nil {
		return err
	}
	if err := wire.CheckVersion("devices", d.V); err != nil {
		return err
	}
	if clean := wire.CleanDevices(engineapi.Devices(d.Devices)); len(clean) != len(d.Devices) {
		return wire.Problemf(http.StatusUnprocessableEntity, "bad-devices",
			"send at most "+fmt.Sprint(api.MaxDevices)+", each with a type and an id of its own",
			"these cannot be the devices of a worker", "%d of %d can be", len(clean), len(d.Devices))
	}
	e.mu.Lock()
	known := e.deps.devices()
	var added []engineapi.DeviceNode
	if was := e.deps.plugged.Load(); was != nil {
		added = slices.Clone(*was)
	}
	for _, n := range d.Devices {
		if !slices.ContainsFunc(known, func(k engineapi.DeviceNode) bool { return k.ID == n.ID }) {
			added = append(added, n)
		}
	}
	e.deps.plugged.Store(&added)
	e.mu.Unlock()
	e.replan()
	return nil
}
