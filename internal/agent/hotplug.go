package agent

import (
	"context"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/wire"
)

// devicesEvery is the time between two looks at which devices are there. It reads a few
// files of the kernel.
const devicesEvery = 30 * time.Second

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

// watchDevices looks again and again which devices are there, until ctx ends.
func (a *Agent) watchDevices(ctx context.Context) {
	if a.opts.Probe == nil {
		return
	}
	tick := time.NewTicker(devicesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if a.lookDevices(a.opts.Probe()) {
				loop.Poke(a.changed)
			}
		}
	}
}

// lookDevices takes what is there now, with what is not as the Probe says it, and reports
// whether that has changed. One that is gone is offered no more, and offered again when it
// is back; who has it keeps it. The engine knows the devices of its start alone, so one
// that has been added is a problem that says what to do.
func (a *Agent) lookDevices(found []wire.DeviceNode, missing []string) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var gone []string
	problems := slices.Clone(missing)
	for i := range a.opts.Devices {
		d := &a.opts.Devices[i]
		if slices.ContainsFunc(found, func(f wire.DeviceNode) bool { return sameDevice(&f, d) }) {
			continue
		}
		gone = append(gone, d.ID)
		problems = append(problems, "device "+d.ID+" is gone"+at(d)+"; plug it in again, it is given to nobody until then")
	}
	for i := range found {
		d := &found[i]
		if !slices.ContainsFunc(a.opts.Devices, func(o wire.DeviceNode) bool { return sameDevice(&o, d) }) {
			problems = append(problems, "a "+d.Type+" has been added"+at(d)+"; stop the worker's engine to offer it: verge worker stop, and start the worker")
		}
	}
	if slices.Equal(gone, a.gone) && slices.Equal(problems, a.opts.Missing) {
		return false
	}
	for _, p := range problems {
		if !slices.Contains(a.opts.Missing, p) {
			a.log.Warn("devices", "problem", p)
		}
	}
	a.gone, a.opts.Missing = gone, problems
	return true
}

// offered are the devices that are there, and the capacity with them. The mutex is held.
func (a *Agent) offered() ([]wire.Device, api.Resources) {
	all, capacity := wire.Devices(a.opts.Devices), a.opts.Capacity
	if len(a.gone) == 0 {
		return all, capacity
	}
	there := slices.DeleteFunc(all, func(d wire.Device) bool { return slices.Contains(a.gone, d.ID) })
	capacity.VGPUs, capacity.VTPUs = wire.DeviceUnits(there, api.DeviceGPU), wire.DeviceUnits(there, api.DeviceTPU)
	return there, capacity
}

func at(d *wire.DeviceNode) string {
	if len(d.Paths) == 0 {
		return ""
	}
	return " (" + d.Paths[0] + ")"
}

func sameDevice(a, b *wire.DeviceNode) bool {
	return a.Type == b.Type && a.Vendor == b.Vendor && a.Index == b.Index && slices.Equal(a.Paths, b.Paths)
}
