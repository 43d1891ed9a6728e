package compose

import (
	"math"
	"slices"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// cpus converts a number of processors to thousandths.
func (c *converter) cpus(name string, cpus float32, field ...string) api.CPU {
	n := math.Round(float64(cpus) * 1000)
	if !(n >= 0 && n <= float64(api.MaxCPU)) { // nor NaN
		c.report.At(report.Refused, c.doc, c.path(name, field...), "is not a number of processors from 0 to %d",
			api.MaxCPU/1000)
		return 0
	}
	return api.CPU(n)
}

// bytes converts an amount of memory. One that overflowed is negative here.
func (c *converter) bytes(name string, n types.UnitBytes, field ...string) api.Bytes {
	if n < 0 || api.Bytes(n) > api.MaxBytes {
		c.report.At(report.Refused, c.doc, c.path(name, field...),
			"is not an amount of memory from 0 to %s: write one such as 512m", api.MaxBytes)
		return 0
	}
	return api.Bytes(n)
}

func (c *converter) resources(name string, s types.ServiceConfig, out *api.Service) {
	out.Limits.Memory, out.Resources.Memory = c.bytes(name, s.MemLimit, "mem_limit"),
		c.bytes(name, s.MemReservation, "mem_reservation")
	out.Limits.CPU = c.cpus(name, s.CPUS, "cpus")
	gpus, at := s.Gpus, []string{"gpus"}
	if d := s.Deploy; d != nil {
		if l := d.Resources.Limits; l != nil {
			if l.MemoryBytes != 0 {
				out.Limits.Memory = c.bytes(name, l.MemoryBytes, "deploy", "resources", "limits", "memory")
			}
			if l.NanoCPUs != 0 {
				out.Limits.CPU = c.cpus(name, l.NanoCPUs.Value(), "deploy", "resources", "limits", "cpus")
			}
			if l.Pids != 0 {
				c.lost(name, "is not carried over: Verge does not count processes", "deploy", "resources", "limits",
					"pids")
			}
		}
		if r := d.Resources.Reservations; r != nil {
			if r.MemoryBytes != 0 {
				out.Resources.Memory = c.bytes(name, r.MemoryBytes, "deploy", "resources", "reservations", "memory")
			}
			out.Resources.CPU = c.cpus(name, r.NanoCPUs.Value(), "deploy", "resources", "reservations", "cpus")
			if len(r.Devices) > 0 {
				gpus, at = r.Devices, []string{"deploy", "resources", "reservations", "devices"}
			}
			if len(r.GenericResources) > 0 {
				c.lost(name, "are not carried over: devices are asked for by type (devices: [{type: camera}])",
					"deploy",
					"resources", "reservations", "generic_resources")
			}
		}
	}
	for i, g := range gpus {
		gpu := len(g.Capabilities) == 0 || slices.Contains(g.Capabilities, "gpu")
		switch n := max(int(g.Count), len(g.IDs)); {
		case !gpu:
			c.lost(name, "is not carried over: it asks for no gpu", append(at, source.Index(i))...)
		case n < 1: // all of them
			out.Resources.VGPUs = max(out.Resources.VGPUs, 1000)
			c.lost(name, "all gpus of a machine cannot be asked for: it gets one (resources.vgpus)",
				append(at, source.Index(i))...)
		default:
			out.Resources.VGPUs += api.Units(n) * 1000
		}
	}
}
