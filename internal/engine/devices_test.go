package engine

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

func nodes() []wire.DeviceNode {
	node := func(id, typ, vendor, index string, paths ...string) wire.DeviceNode {
		return wire.DeviceNode{Device: wire.Device{ID: id, Type: typ}, Vendor: vendor, Index: index, Paths: paths}
	}
	return []wire.DeviceNode{
		node("gpu0", "gpu", "nvidia", "GPU-a", "/dev/nvidia0", "/dev/nvidiactl"), node("gpu1", "gpu", "nvidia", "GPU-b", "/dev/nvidia1", "/dev/nvidiactl"),
		node("camera0", "camera", "", "", "/dev/video0"),
	}
}

// withDevices is an order with what it needs and what it was given.
func withDevices(ordinal, incarnation int, demand api.Units, cameras int, held ...wire.Held) wire.Order {
	o := order(ordinal, incarnation, 100)
	o.Spec.Resources.VGPUs, o.Devices = demand, held
	if cameras > 0 {
		o.Spec.Devices = []api.DeviceNeed{{Type: "camera", Count: cameras}}
	}
	return o
}

// What a cluster gives of the devices is checked where they are: a cluster that was
// told something else, or errs, does no harm.
func TestDevicesAreAdmitted(t *testing.T) {
	t.Parallel()
	half0 := wire.Held{ID: "gpu0", Share: 500}
	running := withDevices(0, 1, 500, 0, half0)
	for name, c := range map[string]struct {
		order wire.Order
		want  string // "" runs
	}{
		"the other half":     {withDevices(1, 1, 500, 0, half0), ""},
		"more than the rest": {withDevices(1, 1, 700, 0, wire.Held{ID: "gpu0", Share: 700}), "needs 0.7 of device gpu0, 0.5 free"},
		"another card":       {withDevices(1, 1, 1000, 0, wire.Held{ID: "gpu1", Share: 1000}), ""},
		"no such card":       {withDevices(1, 1, 1000, 0, wire.Held{ID: "gpu7", Share: 1000}), "device gpu7, which is not on this worker"},
		"none given":         {withDevices(1, 1, 500, 0), "was not given the devices that it needs: needs 0.5 of a gpu"},
		"two cameras of one": {withDevices(1, 1, 0, 2, wire.Held{ID: "camera0", Share: 1000}), "needs 2 cameras, 1 free"},
		"itself, replaced":   {withDevices(0, 2, 1000, 0, wire.Held{ID: "gpu0", Share: 1000}), ""},
	} {
		w := world{
			orders: []wire.Order{running, c.order}, known: true, devices: nodes(), runtimes: []string{"process"},
			capacity: api.Resources{CPU: 1000, VGPUs: 2000},
			present:  map[wire.InstanceID]present{running.ID: {order: running, holds: true}},
		}
		if c.order.ID == running.ID {
			w.orders = w.orders[1:]
		}
		g := plan(w)[c.order.ID]
		if got := g.kind == goalRun; got != (c.want == "") || !strings.Contains(g.why, c.want) {
			t.Errorf("%s: %s %q, want %q", name, g.kind, g.why, c.want)
		}
		if first := plan(w)[running.ID]; first.kind != goalRun {
			t.Errorf("%s: what runs gets %s (%s)", name, first.kind, first.why)
		}
	}
	// Two that come at once do not get the same.
	a, b := withDevices(1, 1, 600, 0, wire.Held{ID: "gpu1", Share: 600}), withDevices(2, 1, 600, 0, wire.Held{ID: "gpu1", Share: 600})
	goals := plan(world{orders: []wire.Order{a, b}, known: true, devices: nodes(), runtimes: []string{"process"}, capacity: api.Resources{CPU: 1000, VGPUs: 2000}})
	if goals[a.ID].kind != goalRun || goals[b.ID].kind != goalRefuse {
		t.Errorf("%+v and %+v", goals[a.ID], goals[b.ID])
	}
}

func TestInstancesAreToldOfTheirDevices(t *testing.T) {
	t.Parallel()
	o := withDevices(0, 1, 1000, 1, wire.Held{ID: "gpu1", Share: 1000}, wire.Held{ID: "camera0", Share: 1000})
	env := deviceEnv(&o, nodes())
	for name, want := range map[string]string{
		"VERGE_DEVICES": "gpu1,camera0", "VERGE_DEVICE_GPU": "/dev/nvidia1:/dev/nvidiactl", "VERGE_DEVICE_CAMERA": "/dev/video0",
		"NVIDIA_VISIBLE_DEVICES": "GPU-b", "CUDA_VISIBLE_DEVICES": "GPU-b",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	if paths := strings.Join(pathsOf(nodesOf(&o, nodes())), " "); paths != "/dev/nvidia1 /dev/nvidiactl /dev/video0" {
		t.Errorf("a container gets %s", paths)
	}
	// Who has none is told so, or its library would take all; what the descriptor says counts.
	none := withDevices(1, 1, 0, 0)
	none.Spec.Env = map[string]string{"CUDA_VISIBLE_DEVICES": "0"}
	env = deviceEnv(&none, nodes())
	if _, set := env["CUDA_VISIBLE_DEVICES"]; set || env["NVIDIA_VISIBLE_DEVICES"] != "none" || env["VERGE_DEVICES"] != "" {
		t.Errorf("without a device it gets %v", env)
	}
	if env := deviceEnv(&none, nil); len(env) != 0 {
		t.Errorf("on a worker without devices it gets %v", env)
	}
}

// A device that is added while the engine runs can be had from then on; what makes no sense
// changes nothing.
func TestAnAddedDeviceCanBeHad(t *testing.T) {
	t.Parallel()
	k := &kit{config: wire.EngineConfig{Devices: nodes()[:1], Capacity: api.Resources{CPU: 1000, VGPUs: 1000}}}
	loaded := make(chan struct{})
	close(loaded)
	e := &Engine{kit: k, loaded: loaded}
	plug := func(list ...wire.DeviceNode) error {
		return e.Plug(t.Context(), wire.EngineDevices{V: wire.Version, Devices: list})
	}
	for range 2 { // it is told again after a restart of the agent
		if err := plug(nodes()...); err != nil {
			t.Fatal(err)
		}
	}
	if got := k.devices(); len(got) != 3 || got[1].ID != "gpu1" || got[2].Paths[0] != "/dev/video0" || k.capacity() != (api.Resources{CPU: 1000, VGPUs: 2000}) {
		t.Errorf("%+v with %+v", got, k.capacity())
	}
	other := nodes()[0]
	other.Paths = []string{"/dev/other"}
	if err := plug(other); err != nil || k.devices()[0].Paths[0] != "/dev/nvidia0" {
		t.Errorf("%v, %+v", err, k.devices()[0])
	}
	nameless := nodes()[0]
	nameless.ID = ""
	for _, bad := range [][]wire.DeviceNode{{nameless}, {other, other}, make([]wire.DeviceNode, api.MaxDevices+1)} {
		if err := plug(bad...); err == nil || len(k.devices()) != 3 {
			t.Errorf("%d devices: %v", len(bad), err)
		}
	}
	o := withDevices(0, 1, 0, 1, wire.Held{ID: "camera0", Share: 1000})
	w := world{orders: []wire.Order{o}, known: true, devices: k.devices(), capacity: k.capacity(), runtimes: []string{"process"}}
	if g := plan(w)[o.ID]; g.kind != goalRun {
		t.Errorf("%s: %s", g.kind, g.why)
	}
}
