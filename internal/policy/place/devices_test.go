package place

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/wire"
)

// card is "gpu a10 0.25": type, model ("-": not known), and what of it is taken.
func card(id, text string) device.Device {
	f := strings.Fields(text)
	d := device.Device{Device: wire.Device{ID: id, Type: f[0]}}
	if len(f) > 1 && f[1] != "-" {
		d.Model = api.DeviceModel(f[1])
	}
	if len(f) > 2 {
		if err := d.Used.UnmarshalText([]byte(f[2])); err != nil {
			panic(err)
		}
	}
	return d
}

func cards(texts ...string) (out []device.Device) {
	for i, t := range texts {
		out = append(out, card(fmt.Sprintf("d%d", i), t))
	}
	return out
}

// taken is a worker of which so many quarters of the processors are in use.
func taken(w WorkerView, quarters api.CPU) WorkerView {
	w.Used.CPU = w.Capacity.CPU / 4 * quarters
	return w
}

// equipped is a worker with devices; what of them is taken is reserved.
func equipped(id string, devices []device.Device) WorkerView {
	w := worker(id, api.Resources{})
	w.Devices = devices
	for _, d := range devices {
		switch d.Type {
		case api.DeviceGPU:
			w.Capacity.VGPUs += device.Whole
			w.Used.VGPUs += d.Used
		case api.DeviceTPU:
			w.Capacity.VTPUs += device.Whole
			w.Used.VTPUs += d.Used
		}
	}
	return w
}

func TestDevices(t *testing.T) {
	gpus := func(u api.Units, model ...string) func(*Request) {
		return func(r *Request) {
			if r.Demand.VGPUs = u; len(model) > 0 {
				r.Devices = []api.DeviceNeed{{Type: "gpu", Model: model}}
			}
		}
	}
	for name, c := range map[string]struct {
		workers []WorkerView
		change  func(*Request)
		want    string
		held    string
		reason  string
	}{
		"a whole one":         {[]WorkerView{equipped("a", cards("gpu")), worker("b", api.Resources{})}, gpus(1000), "a", "d0 1", ""},
		"none":                {[]WorkerView{worker("a", api.Resources{})}, gpus(1000), "", "", "1 worker: 1 has not a gpu"},
		"a share of one":      {[]WorkerView{equipped("a", cards("gpu"))}, gpus(250), "a", "d0 0.25", ""},
		"shares do not add":   {[]WorkerView{equipped("a", cards("gpu - 0.6", "gpu - 0.6"))}, gpus(500), "", "", "1 worker: 1 is full: needs 0.5 of a gpu, at most 0.4 of one free"},
		"best fit of a share": {[]WorkerView{equipped("a", cards("gpu", "gpu - 0.5", "gpu - 0.8"))}, gpus(500), "a", "d1 0.5", ""},
		"halves are no whole": {[]WorkerView{equipped("a", cards("gpu - 0.5", "gpu - 0.5"))}, gpus(1000), "", "", "1 worker: 1 is full: needs a gpu, 0 free"},
		"two of three":        {[]WorkerView{equipped("a", cards("gpu - 1", "gpu", "gpu"))}, gpus(2000), "a", "d1 1,d2 1", ""},
		"not over workers":    {[]WorkerView{equipped("a", cards("gpu")), equipped("b", cards("gpu"))}, gpus(2000), "", "", "2 workers: 2 have not the devices asked for"},
		"the model":           {[]WorkerView{equipped("a", cards("gpu nvidia-t4")), equipped("b", cards("gpu nvidia-a10"))}, gpus(1000, "A10"), "b", "d0 1", ""},
		"another model":       {[]WorkerView{equipped("a", cards("gpu nvidia-a100"))}, gpus(1000, "a10"), "", "", "1 worker: 1 has not a gpu of model a10 (has nvidia-a100)"},
		"one of two models":   {[]WorkerView{equipped("a", cards("gpu v100m16", "gpu v100m32"))}, gpus(1000, "v100m32", "p100"), "a", "d1 1", ""},
		"tpus are no gpus":    {[]WorkerView{equipped("a", cards("gpu")), equipped("b", cards("tpu"))}, func(r *Request) { r.Demand.VTPUs = 1000 }, "b", "d0 1", ""},
		"other devices": {
			[]WorkerView{equipped("a", cards("camera")), equipped("b", cards("camera", "camera", "gpu"))},
			func(r *Request) { r.Devices = []api.DeviceNeed{{Type: "camera", Count: 2}} }, "b", "d0 1,d1 1", "",
		},
		"accelerators are left to who asks": {[]WorkerView{equipped("a", cards("gpu")), worker("b", api.Resources{})}, unchanged, "b", "", ""},
		"accelerators keep their processors": {
			[]WorkerView{
				taken(equipped("a", cards("gpu", "gpu")), 3), taken(equipped("b", cards("gpu", "gpu")), 1),
			}, gpus(1000), "b", "d0 1", "",
		},
		"processors keep their accelerators": {
			[]WorkerView{equipped("a", cards("gpu - 1", "gpu - 1", "gpu", "gpu")), taken(equipped("b", cards("gpu", "gpu", "gpu", "gpu")), 2)},
			gpus(1000), "b", "d0 1", "",
		},
		"but used where nothing else is": {[]WorkerView{equipped("a", cards("gpu"))}, unchanged, "a", "", ""},
		"a worker that counts what it has not": {
			[]WorkerView{worker("a", api.Resources{}, func(w *WorkerView) { w.Capacity.VGPUs = math.MaxInt64 })}, gpus(1000), "", "", "1 worker: 1 has not a gpu",
		},
		"more taken than there is": {[]WorkerView{equipped("a", cards("gpu - 64"))}, gpus(100), "", "", "1 worker: 1 is full: needs 0.1 of a gpu, at most 0 of one free"},
		"impossible demand":        {[]WorkerView{equipped("a", cards("gpu"))}, gpus(-5), "a", "", ""},
	} {
		r := with(c.change)
		d := Schedule(c.workers, r)
		if d.Chosen != c.want || d.Reason != c.reason {
			t.Errorf("%s: chose %q (%s), want %q (%s)", name, d.Chosen, d.Reason, c.want, c.reason)
		}
		if again, err := Replay(d); err != nil || again.Chosen != d.Chosen || again.Reason != d.Reason {
			t.Errorf("%s: replayed: %q %q %v", name, again.Chosen, again.Reason, err)
		}
		for _, w := range c.workers {
			if w.ID != d.Chosen {
				continue
			}
			held, lacking := device.Give(w.Devices, r.Demand, r.Devices)
			var text []string
			for _, h := range held {
				text = append(text, h.ID+" "+h.Share.String())
			}
			if got := strings.Join(text, ","); got != c.held || lacking != "" {
				t.Errorf("%s: given %q (%s), want %q", name, got, lacking, c.held)
			}
		}
	}
}

func drawDevices(t *rapid.T) []device.Device {
	out := make([]device.Device, rapid.IntRange(0, 6).Draw(t, "devices"))
	for i := range out {
		typ := rapid.SampledFrom([]string{"gpu", "tpu", "camera"}).Draw(t, "type")
		model := rapid.SampledFrom([]string{"-", "a10", "t4"}).Draw(t, "model")
		out[i] = card(fmt.Sprintf("d%d", i), typ+" "+model)
	}
	return out
}

func drawNeeds(t *rapid.T) (api.Resources, []api.DeviceNeed) {
	units := func(what string) api.Units {
		if n := rapid.IntRange(0, 3).Draw(t, what); n != 1 {
			return api.Units(n * device.Whole)
		}
		return api.Units(rapid.IntRange(1, device.Whole).Draw(t, what+" share"))
	}
	r := api.Resources{VGPUs: units("gpus"), VTPUs: units("tpus")}
	var list []api.DeviceNeed
	if r.VGPUs > 0 && rapid.Bool().Draw(t, "one model") {
		list = append(list, api.DeviceNeed{Type: "gpu", Model: []string{"a10"}})
	}
	if n := rapid.IntRange(0, 2).Draw(t, "cameras"); n > 0 {
		list = append(list, api.DeviceNeed{Type: "camera", Count: n})
	}
	return r, list
}

// However many instances come and go, no device is given more than once, each
// instance has exactly what it needs, of a model that will do, a share is in one
// device, and the worker's own check agrees.
func TestGiveNeverOvercommits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := drawDevices(t)
		type instance struct {
			held   []wire.Held
			demand api.Resources
			list   []api.DeviceNeed
		}
		var all []instance
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if len(all) > 0 && rapid.IntRange(0, 2).Draw(t, "end one") == 0 {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				for _, h := range all[i].held {
					k := slices.IndexFunc(devices, func(d device.Device) bool { return d.ID == h.ID })
					devices[k].Used -= h.Share
				}
				all = slices.Delete(all, i, i+1)
				continue
			}
			demand, list := drawNeeds(t)
			held, lacking := device.Give(devices, demand, list)
			if lacking != "" {
				if len(held) > 0 {
					t.Fatalf("given %v although %s", held, lacking)
				}
				continue
			}
			if why := device.Admit(devices, held, demand, list); why != "" {
				t.Fatalf("the worker refuses %v: %s", held, why)
			}
			given := map[string]api.Units{}
			for _, h := range held {
				k := slices.IndexFunc(devices, func(d device.Device) bool { return d.ID == h.ID })
				if devices[k].Used += h.Share; devices[k].Used > device.Whole {
					t.Fatalf("%+v is given more than once", devices[k])
				}
				if devices[k].Type == "gpu" && len(list) > 0 && list[0].Type == "gpu" && devices[k].Model != "a10" {
					t.Fatalf("%+v is of another model", devices[k])
				}
				if h.Share != device.Whole && len(held) > 1 && given[devices[k].Type] > 0 {
					t.Fatalf("a share in several devices: %v", held)
				}
				given[devices[k].Type] += h.Share
			}
			cameras := api.Units(0)
			if n := len(list); n > 0 {
				cameras = api.Units(list[n-1].Count * device.Whole)
			}
			if given["gpu"] != demand.VGPUs || given["tpu"] != demand.VTPUs || given["camera"] != cameras {
				t.Fatalf("given %v for %+v %+v", given, demand, list)
			}
			all = append(all, instance{held, demand, list})
		}
	})
}

// A cluster is passed over for devices only where none of its workers has room for
// even one replica, whatever it has and whatever of it is taken.
func TestDevicesOfClustersArePassedOverOnlyIfProven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var workers []WorkerView
		for i := range rapid.IntRange(1, 5).Draw(t, "workers") {
			devices := drawDevices(t)
			for k := range devices {
				devices[k].Used = api.Units(rapid.SampledFrom([]int{0, 0, 250, 500, 1000}).Draw(t, "used"))
			}
			workers = append(workers, equipped(fmt.Sprintf("w%d", i), devices))
		}
		r := with(unchanged)
		r.Demand.VGPUs, r.Demand.VTPUs = 0, 0
		demand, list := drawNeeds(t)
		r.Demand.VGPUs, r.Demand.VTPUs, r.Devices = demand.VGPUs, demand.VTPUs, list
		a := aggregateOf(workers)
		Describe(workers, &a)
		n, why := Room(ClusterView{ID: "edge", Connected: true, Aggregate: a}, r)
		if d := Schedule(workers, r); d.Chosen != "" && n == 0 {
			t.Fatalf("%s takes one, and the cluster is passed over: it %s", d.Chosen, why)
		}
	})
}

func TestDevicesInAggregates(t *testing.T) {
	workers := []WorkerView{equipped("a", cards("gpu a10", "gpu a10 0.5")), equipped("b", cards("gpu t4", "camera"))}
	a := aggregateOf(workers)
	Describe(workers, &a)
	if a.VGPUs.Sum != 2500 || a.VGPUs.Max != 1500 || a.Capacity.VGPUs != 3000 {
		t.Errorf("gpus %+v of %s", a.VGPUs, a.Capacity.VGPUs)
	}
	if a.Devices["gpu/a10"] != 2 || a.Devices["camera/"] != 1 || a.MoreDevices {
		t.Errorf("devices %v", a.Devices)
	}
	view := ClusterView{ID: "edge", Connected: true, Aggregate: a}
	for name, c := range map[string]struct {
		change func(*Request)
		reason string
	}{
		"there is one":  {func(r *Request) { r.Demand.VGPUs = 1000 }, ""},
		"too many":      {func(r *Request) { r.Demand.VGPUs = 4000 }, "1 cluster: 1 has not 4 gpus (has a10, t4)"},
		"all are taken": {func(r *Request) { r.Demand.VGPUs = 2000 }, "1 cluster: 1 is full: needs 2 vgpus, largest free 1.5"},
		"another model": {func(r *Request) {
			r.Demand.VGPUs = 500
			r.Devices = []api.DeviceNeed{{Type: "gpu", Model: []string{"h100"}}}
		}, "1 cluster: 1 has not 0.5 of a gpu of model h100 (has a10, t4)"},
		"another device": {func(r *Request) { r.Devices = []api.DeviceNeed{{Type: "lidar", Count: 1}} }, "1 cluster: 1 has not a lidar"},
	} {
		if d := RankClusters([]ClusterView{view}, with(c.change)); d.Reason != c.reason {
			t.Errorf("%s: %q, want %q", name, d.Reason, c.reason)
		}
	}
	// The size does not depend on how many there are.
	var many []device.Device
	for i := range 500 {
		many = append(many, card(fmt.Sprint("d", i), fmt.Sprintf("gpu m%d", i)))
	}
	Describe([]WorkerView{equipped("a", many)}, &a)
	if len(a.Devices) != wire.MaxModels || !a.MoreDevices {
		t.Errorf("%d models, more: %v", len(a.Devices), a.MoreDevices)
	}
	view.Aggregate = a
	if d := RankClusters([]ClusterView{view}, with(func(r *Request) { r.Devices = []api.DeviceNeed{{Type: "lidar", Count: 1}} })); d.Unplaced != 0 {
		t.Errorf("it may be among those that are not told: %s", d.Reason)
	}
}

// What is reserved of a connection is not reserved twice, in each direction for
// itself, and a worker that does not know what it has gives none.
func TestBandwidthIsReserved(t *testing.T) {
	const mbit = 1_000_000
	line := func(in, out, usedIn, usedOut api.Bitrate) WorkerView {
		w := worker("a", api.Resources{Bandwidth: api.Bandwidth{In: usedIn, Out: usedOut}})
		w.Capacity.Bandwidth = api.Bandwidth{In: in, Out: out}
		return w
	}
	wants := with(func(r *Request) { r.Demand.Bandwidth = api.Bandwidth{In: 5 * mbit, Out: 2 * mbit} })
	for name, c := range map[string]struct {
		w      WorkerView
		reason string
	}{
		"room":      {line(10*mbit, 10*mbit, 5*mbit, 8*mbit), ""},
		"in":        {line(10*mbit, 10*mbit, 6*mbit, 0), "1 worker: 1 is full: needs 5Mbps bandwidth in, 4Mbps free"},
		"out":       {line(10*mbit, 10*mbit, 0, 8_500_000), "1 worker: 1 is full: needs 2Mbps bandwidth out, 1.5Mbps free"},
		"not known": {worker("a", api.Resources{}), "1 worker: 1 is full: needs 5Mbps bandwidth in, 0bps free"},
	} {
		if d := Schedule([]WorkerView{c.w}, wants); d.Reason != c.reason {
			t.Errorf("%s: %q, want %q", name, d.Reason, c.reason)
		}
	}
	a := aggregateOf([]WorkerView{line(10*mbit, 20*mbit, 0, 0), line(30*mbit, 40*mbit, 0, 0)})
	if a.In.Sum != 40*mbit || a.Out.Max != 40*mbit {
		t.Errorf("aggregate %+v %+v", a.In, a.Out)
	}
}
