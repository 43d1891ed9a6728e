package agent

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/agent/engineconfig"
	"github.com/verge-edge/verge/internal/agent/probe/hardware"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/wire"
)

// devicesEvery is the time between two looks at which devices are there. It reads a few
// files of the kernel.
const devicesEvery = 30 * time.Second

// devicesAgain is the time until the next look after one at which a device was absent that
// had been there. One that a driver begins anew is away for a few seconds, and what has it
// would be moved for nothing: it counts as gone when it is absent at both.
const devicesAgain = 10 * time.Second

// relabel takes over other labels.
func (a *Agent) relabel(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case labels := <-a.opts.Relabel:
			a.mu.Lock()
			a.labels = labels
			a.mu.Unlock()
			loop.Poke(a.changed)
		}
	}
}

// watchDevices looks which devices are there, at once and again and again, until ctx ends.
func (a *Agent) watchDevices(ctx context.Context) {
	if a.opts.Probe == nil {
		return
	}
	for {
		found, missing := a.opts.Probe()
		if a.lookDevices(ctx, found, missing) {
			loop.Poke(a.changed)
		}
		pause := devicesEvery
		a.mu.Lock()
		if len(a.doubted) > 0 {
			pause = devicesAgain
		}
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// plugger is an engine that takes devices which are added while it runs. One of a former
// version does not, nor does one that has no devices.
type plugger interface {
	Plug(ctx context.Context, d engineapi.EngineDevices) error
}

// lookDevices takes what is there now, with what is not as the Probe says it, and reports
// whether that has changed. One that is gone, at two looks, is offered no more, and offered again when it
// is back; who has it keeps it until the cluster has moved it. One that has been added is
// offered once the engine knows of it.
func (a *Agent) lookDevices(ctx context.Context, found []engineapi.DeviceNode, missing []string) (changed bool) {
	added := a.newDevices(found)
	var unplugged error
	if len(added) > 0 {
		if unplugged = a.plug(ctx, added); unplugged == nil {
			added, changed = nil, true
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var gone, doubted []string
	problems := slices.Clone(missing)
	for i := range a.opts.Devices {
		d := &a.opts.Devices[i]
		if slices.ContainsFunc(found, func(f engineapi.DeviceNode) bool { return hardware.SameDevice(&f, d) }) {
			continue
		}
		if !slices.Contains(a.gone, d.ID) && !slices.Contains(a.doubted, d.ID) {
			doubted = append(doubted, d.ID)
			continue
		}
		gone = append(gone, d.ID)
		problems = append(problems, "device "+d.ID+" is gone"+at(d)+"; plug it in again, it is given to nobody until then")
	}
	a.doubted = doubted
	for i := range added {
		problems = append(problems,
			fmt.Sprintf("a %s has been added%s, and is not offered: %v; stop the worker's engine to offer it: verge worker stop, and start the worker",
				added[i].Type, at(&added[i]), unplugged))
	}
	if slices.Equal(gone, a.gone) && slices.Equal(problems, a.opts.Missing) {
		return changed
	}
	for _, p := range problems {
		if !slices.Contains(a.opts.Missing, p) {
			a.log.Warn("devices", "problem", p)
		}
	}
	a.gone, a.opts.Missing = gone, problems
	return true
}

// newDevices are those that were found and are not known, with ids that no other has had
// here: that of one that is gone stays with it.
func (a *Agent) newDevices(found []engineapi.DeviceNode) (added []engineapi.DeviceNode) {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := map[string]bool{}
	for i := range a.opts.Devices {
		taken[a.opts.Devices[i].ID] = true
	}
	for _, d := range found {
		if slices.ContainsFunc(a.opts.Devices, func(o engineapi.DeviceNode) bool { return hardware.SameDevice(&o, &d) }) {
			continue
		}
		d.ID = ""
		for n := 0; d.ID == ""; n++ {
			if id := d.Type + strconv.Itoa(n); !taken[id] {
				d.ID, taken[id] = id, true
			}
		}
		added = append(added, d)
	}
	return added
}

// plug makes the engine know of devices, the one that runs and the next one, and offers
// them.
func (a *Agent) plug(ctx context.Context, added []engineapi.DeviceNode) error {
	engine, ok := a.client.(plugger)
	a.mu.Lock()
	all := slices.Concat(a.opts.Devices, added)
	a.mu.Unlock()
	switch {
	case !ok:
		return engineclient.ErrNotThere
	case len(all) > api.MaxDevices:
		return fmt.Errorf("that would be %d devices, at most %d", len(all), api.MaxDevices)
	}
	if err := engine.Plug(ctx, engineapi.EngineDevices{V: wire.Version, Devices: added}); err != nil {
		return err
	}
	cfg, err := engineconfig.Read(a.opts.Dir)
	if err != nil {
		return fmt.Errorf("the engine's configuration: %w", err)
	}
	list := engineapi.Devices(all)
	cfg.Devices = all
	cfg.Capacity.VGPUs, cfg.Capacity.VTPUs = wire.DeviceUnits(list, api.DeviceGPU), wire.DeviceUnits(list, api.DeviceTPU)
	if err := engineconfig.Write(a.opts.Dir, cfg); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opts.Devices, a.opts.Capacity.VGPUs, a.opts.Capacity.VTPUs = all, cfg.Capacity.VGPUs, cfg.Capacity.VTPUs
	for i := range added {
		a.log.Info("a device has been added", "device", added[i].ID, "model", added[i].Model)
	}
	return nil
}

// offered are the devices that are there, and the capacity with them. The mutex is held.
func (a *Agent) offered() ([]wire.Device, api.Resources) {
	all, capacity := engineapi.Devices(a.opts.Devices), a.opts.Capacity
	if len(a.gone) == 0 {
		return all, capacity
	}
	there := slices.DeleteFunc(all, func(d wire.Device) bool { return slices.Contains(a.gone, d.ID) })
	capacity.VGPUs, capacity.VTPUs = wire.DeviceUnits(there, api.DeviceGPU), wire.DeviceUnits(there, api.DeviceTPU)
	return there, capacity
}

func at(d *engineapi.DeviceNode) string {
	if len(d.Paths) == 0 {
		return ""
	}
	return " (" + d.Paths[0] + ")"
}

// adopted is the configuration of an engine that runs, as this agent wants it: devices come
// and go while it does, so that only those count which it has and which are described
// otherwise now. The others lookDevices brings to it, or says that they are gone.
func adopted(had, now engineapi.EngineConfig) engineapi.EngineConfig {
	list := slices.Clone(had.Devices)
	for i := range list {
		for k := range now.Devices {
			if d := now.Devices[k]; hardware.SameDevice(&d, &list[i]) {
				d.ID = list[i].ID
				list[i] = d
			}
		}
	}
	now.Devices, now.Capacity.VGPUs, now.Capacity.VTPUs = list, had.Capacity.VGPUs, had.Capacity.VTPUs
	return now
}
