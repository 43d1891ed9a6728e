package oakestra

import (
	"math"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/source"
)

// number is a numeric field, 0 if it is absent or no number.
func (k *converter) number(n *source.Node, field string, path []string) float64 {
	c := n.Child(field)
	if c == nil || c.Value == nil {
		return 0
	}
	var v float64
	switch x := c.Value.(type) {
	case int:
		v = float64(x)
	case uint64:
		v = float64(x)
	case float64:
		v = x
	default:
		k.refuse(source.Extend(path, field), "is not a number")
		return 0
	}
	if !(v >= 0) || v > 1e15 {
		k.refuse(source.Extend(path, field), "%s is not an amount, which is from 0 to 1e15", source.Quote(c.Text))
		return 0
	}
	return v
}

// spelled is number by the schema's name of the field, or else the documentation's.
func (k *converter) spelled(n *source.Node, schema, documented string, path []string) float64 {
	if n.Child(documented) == nil {
		return k.number(n, schema, path)
	}
	if n.Child(schema) != nil {
		k.lost(source.Extend(path, documented), "is not carried over: %s counts, which Oakestra reads", schema)
		return k.number(n, schema, path)
	}
	k.said(source.Extend(path, documented), "is taken for %s, which Oakestra reads; it would pass over this", schema)
	return k.number(n, documented, path)
}

// amounts are the reservations of an instance: memory and storage in MB of 1024 KB, bandwidth in
// kbit/s.
func (k *converter) amounts(s *source.Node, path []string, out *api.Service) {
	out.Resources.Memory = k.megabytes(s, "memory", path)
	out.Resources.Disk = k.megabytes(s, "storage", path)
	out.Resources.CPU = api.CPU(thousandths(k.spelled(s, "vcpus", "vcpu", path)))
	out.Resources.VGPUs = api.Units(thousandths(k.spelled(s, "vgpus", "vgpu", path)))
	out.Resources.VTPUs = api.Units(thousandths(k.spelled(s, "vtpus", "vtpu", path)))
	if out.Resources.Memory > 0 {
		out.Limits.Memory = out.Resources.Memory
	}
	out.Resources.Bandwidth.In = k.bandwidth(k.number(s, "bandwidth_in", path), source.Extend(path, "bandwidth_in"))
	out.Resources.Bandwidth.Out = k.bandwidth(k.spelled(s, "bandwidth_out", documentedOut, path),
		source.Extend(path, "bandwidth_out"))
}

// thousandths converts an amount, rounded up: a small amount must not become zero.
func thousandths(v float64) float64 { return math.Ceil(v*1000 - 1e-6) }

// megabytes converts an amount in MB of 1024 KB, within Verge's bounds.
func (k *converter) megabytes(n *source.Node, field string, path []string) api.Bytes {
	const mb = 1 << 20
	v := k.number(n, field, path)
	switch most := float64(api.MaxBytes / mb); {
	case v > most:
		k.refuse(source.Extend(path, field),
			"%s MB are more than %s, the most that an instance has: write %.0f or less",
			source.Quote(n.Child(field).Text), api.MaxBytes, most)
		return 0
	case v > 0 && v < 1:
		k.lost(source.Extend(path, field), "is raised to 1Mi, the least that can be reserved")
		return mb
	}
	return api.Bytes(v * mb)
}

// bandwidth converts an amount in kbit/s.
func (k *converter) bandwidth(kbps float64, path []string) api.Bitrate {
	b := api.Bitrate(kbps * 1000)
	if b > 0 && b < api.MinBitrate {
		k.lost(path, "is raised to %s, the least that can be reserved", api.MinBitrate)
		b = api.MinBitrate
	}
	return b
}
