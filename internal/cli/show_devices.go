package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// devicesOf counts devices: "2 gpu nvidia-a10, 1 camera".
func devicesOf(list []wire.Device) string {
	byKind := map[string]int{}
	for _, d := range list {
		byKind[strings.TrimSpace(d.Type+" "+d.Model)]++
	}
	return countsOf(byKind)
}

func countsOf(n map[string]int) string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(n)) {
		out = append(out, fmt.Sprintf("%d %s", n[kind], kind))
	}
	return strings.Join(out, ", ")
}

// workerDevices are the devices of a worker, and what of them and of its connection is
// reserved.
func workerDevices(d *details, v rpc.WorkerView) {
	for _, x := range v.Devices {
		d.add("Device "+x.ID, strings.TrimSpace(x.Type+" "+x.Model))
	}
	for _, x := range []struct {
		name           string
		used, capacity api.Units
	}{{"GPUs", v.Used.VGPUs, v.Capacity.VGPUs}, {"TPUs", v.Used.VTPUs, v.Capacity.VTPUs}} {
		if x.capacity > 0 {
			d.addf(x.name, "%s of %s reserved", x.used, x.capacity)
		}
	}
	if b := v.Capacity.Bandwidth; b != (api.Bandwidth{}) {
		d.addf("Bandwidth in", "%s of %s reserved", v.Used.Bandwidth.In, b.In)
		d.addf("Bandwidth out", "%s of %s reserved", v.Used.Bandwidth.Out, b.Out)
	}
}

// clusterDevices are what a cluster says of the devices and connections of its workers.
func clusterDevices(d *details, g *wire.Aggregate) {
	kinds := map[string]int{}
	for key, n := range g.Devices {
		typ, model, _ := strings.Cut(key, "/")
		kinds[strings.TrimSpace(typ+" "+model)] += n
	}
	d.add("Devices", countsOf(kinds))
	if g.Capacity.VGPUs > 0 {
		d.add("GPUs free", spread(g.VGPUs, g.Capacity.VGPUs, api.Units.String))
	}
	if g.Capacity.VTPUs > 0 {
		d.add("TPUs free", spread(g.VTPUs, g.Capacity.VTPUs, api.Units.String))
	}
	if b := g.Capacity.Bandwidth; b != (api.Bandwidth{}) {
		d.add("Bandwidth in free", spread(g.In, b.In, api.Bitrate.String))
		d.add("Bandwidth out free", spread(g.Out, b.Out, api.Bitrate.String))
	}
}

// devicesAsked are the devices and the bandwidth that a request asks for.
func devicesAsked(r place.Request) (out []string) {
	if r.Demand.VGPUs > 0 {
		out = append(out, "vgpus "+r.Demand.VGPUs.String())
	}
	if r.Demand.VTPUs > 0 {
		out = append(out, "vtpus "+r.Demand.VTPUs.String())
	}
	for i := range r.Devices {
		n := &r.Devices[i]
		text := n.Type
		if n.Count > 1 {
			text = fmt.Sprintf("%d %s", n.Count, n.Type)
		}
		if len(n.Model) > 0 {
			text += " of model " + strings.Join(n.Model, " or ")
		}
		out = append(out, "device "+text)
	}
	if b := r.Demand.Bandwidth; b.In > 0 {
		out = append(out, "bandwidth in "+b.In.String())
	}
	if b := r.Demand.Bandwidth; b.Out > 0 {
		out = append(out, "bandwidth out "+b.Out.String())
	}
	return out
}
