package quota

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// bounded lists everything that a quota bounds, in the order of refusals.
var bounded = []struct {
	name string
	of   func(q *wire.Quota) *int64 // nil of what is counted by n
	n    func(q *wire.Quota) *int
	text func(n int64) string
}{
	{name: "cpu", of: func(q *wire.Quota) *int64 { return (*int64)(&q.CPU) },
		text: func(n int64) string { return api.CPU(n).String() }},
	{name: "memory", of: func(q *wire.Quota) *int64 { return (*int64)(&q.Memory) }, text: bytes},
	{name: "disk", of: func(q *wire.Quota) *int64 { return (*int64)(&q.Disk) }, text: bytes},
	{name: "vgpus", of: func(q *wire.Quota) *int64 { return (*int64)(&q.VGPUs) }, text: units},
	{name: "vtpus", of: func(q *wire.Quota) *int64 { return (*int64)(&q.VTPUs) }, text: units},
	{name: "bandwidth-in", of: func(q *wire.Quota) *int64 { return (*int64)(&q.BandwidthIn) }, text: bitrate},
	{name: "bandwidth-out", of: func(q *wire.Quota) *int64 { return (*int64)(&q.BandwidthOut) }, text: bitrate},
	{name: "objects", of: func(q *wire.Quota) *int64 { return (*int64)(&q.Objects) }, text: bytes},
	{name: "instances", n: func(q *wire.Quota) *int { return &q.Instances }, text: count},
	{name: "applications", n: func(q *wire.Quota) *int { return &q.Applications }, text: count},
}

// Each is what one instance of a service reserves.
type Each struct {
	api.Resources
	Devices []api.DeviceNeed
}

// Needs of a service.
func Needs(s *api.Service) Each { return Each{s.Resources, s.Devices} }

func bytes(n int64) string   { return api.Bytes(n).String() }
func units(n int64) string   { return api.Units(n).String() }
func bitrate(n int64) string { return api.Bitrate(n).String() }
func count(n int64) string   { return fmt.Sprint(n) }

// get and set access the amount of bounded[k].
func get(q *wire.Quota, k int) int64 {
	if b := &bounded[k]; b.of != nil {
		return *b.of(q)
	}
	return int64(*bounded[k].n(q))
}

func set(q *wire.Quota, k int, n int64) {
	if b := &bounded[k]; b.of != nil {
		*b.of(q) = n
	} else {
		*b.n(q) = int(n)
	}
}

// Of is what an application asks for.
func Of(spec *api.Application) wire.Quota {
	u := wire.Quota{Applications: 1}
	for _, s := range spec.Services {
		n := max(s.Replicas.Min, s.Replicas.Max)
		if s.Job != nil { // an index that waits reserves nothing
			n = min(n, s.Job.Parallelism)
		}
		u = Add(u, reserved(n, Needs(s)))
	}
	return u
}

// reserved is what n instances with this reservation reserve.
func reserved(n int, each Each) wire.Quota {
	q := wire.Quota{
		CPU: times(each.CPU, n), Memory: times(each.Memory, n), Disk: times(each.Disk, n),
		VGPUs: times(each.VGPUs, n), VTPUs: times(each.VTPUs, n),
		BandwidthIn: times(each.Bandwidth.In, n), BandwidthOut: times(each.Bandwidth.Out, n), Instances: n,
	}
	for i := range each.Devices {
		// GPUs and TPUs have no count here: their number is a resource.
		if d := &each.Devices[i]; d.Count > 0 && n > 0 {
			q.Devices = with(q.Devices, d.Type, int(times(int64(d.Count), n)))
		}
	}
	return q
}

// with adds n devices of a type to those of a quota; nil if there are none.
func with(devices map[string]int, kind string, n int) map[string]int {
	if n == 0 {
		return devices
	}
	if devices == nil {
		devices = map[string]int{}
	}
	devices[kind] = int(plus(int64(devices[kind]), int64(n)))
	return devices
}

// Add adds two uses. Sums saturate.
func Add(a, b wire.Quota) (sum wire.Quota) {
	for k := range bounded {
		set(&sum, k, plus(get(&a, k), get(&b, k)))
	}
	for _, q := range []wire.Quota{a, b} {
		for kind, n := range q.Devices {
			sum.Devices = with(sum.Devices, kind, n)
		}
	}
	return sum
}

func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times[T ~int64](a T, n int) T {
	if n > 0 && int64(a) > math.MaxInt64/int64(n) {
		return T(math.MaxInt64)
	}
	return a * T(n)
}

// Exceeded says which bounds of q are exceeded when the use of an application changes
// from before (zero: there was none) to after while others use used; "" if none.
func Exceeded(q, others, before, after wire.Quota) string {
	was, is := Add(others, before), Add(others, after)
	var over []string
	passed := func(name string, text func(int64) string, bound, was, is int64) {
		if bound > 0 && is > bound && is > was {
			over = append(over, fmt.Sprintf("%s: %s allowed, %s used, %s asked for, %s too much", name, text(bound), text(was),
				text(is), text(is-bound)))
		}
	}
	for k, b := range bounded {
		passed(b.name, b.text, get(&q, k), get(&was, k), get(&is, k))
	}
	for _, kind := range slices.Sorted(maps.Keys(q.Devices)) {
		passed(Device+kind, count, int64(q.Devices[kind]), int64(was.Devices[kind]), int64(is.Devices[kind]))
	}
	return strings.Join(over, "; ")
}

// Over says which bounds of q the current use exceeds; "" if none.
func Over(q, used wire.Quota) string {
	var over []string
	passed := func(name string, text func(int64) string, bound, is int64) {
		if bound > 0 && is > bound {
			over = append(over, fmt.Sprintf("%s: %s allowed, %s used", name, text(bound), text(is)))
		}
	}
	for k, b := range bounded {
		passed(b.name, b.text, get(&q, k), get(&used, k))
	}
	for _, kind := range slices.Sorted(maps.Keys(q.Devices)) {
		passed(Device+kind, count, int64(q.Devices[kind]), int64(used.Devices[kind]))
	}
	return strings.Join(over, "; ")
}

// Device is the prefix of bounds on devices of a type: "device.camera".
const Device = "device."

// Check validates the bounds on devices of a quota.
func Check(q wire.Quota) error {
	if len(q.Devices) > wire.MaxQuotaDevices {
		return fmt.Errorf("it bounds %d types of devices, at most %d", len(q.Devices), wire.MaxQuotaDevices)
	}
	for _, kind := range slices.Sorted(maps.Keys(q.Devices)) {
		switch n := q.Devices[kind]; {
		case kind == api.DeviceGPU || kind == api.DeviceTPU:
			return fmt.Errorf("%s%s: the number of these is bounded by v%ss", Device, kind, kind)
		case !api.IsDeviceType(kind):
			return fmt.Errorf("%s%.63q: this is not a type of devices: small letters, digits and -, as a service names it",
				Device, kind)
		case n < 1 || n > wire.MaxQuotaCount:
			return fmt.Errorf("%s%s: %d is not between 1 and %d: leave it out to have none", Device, kind, n, wire.MaxQuotaCount)
		}
	}
	return nil
}

// More is by how much n instances with the needs each exceed m instances with the needs
// base, resource by resource; never below zero.
func More(n int, each Each, m int, base Each) (more wire.Quota) {
	is, was := reserved(max(0, n), positive(each)), reserved(max(0, m), positive(base))
	for k := range bounded {
		set(&more, k, max(0, get(&is, k)-get(&was, k)))
	}
	for kind, n := range is.Devices {
		more.Devices = with(more.Devices, kind, max(0, n-was.Devices[kind]))
	}
	return more
}

// positive is r with negative amounts set to zero.
func positive(r Each) Each {
	return Each{Devices: r.Devices, Resources: api.Resources{
		CPU: max(0, r.CPU), Memory: max(0, r.Memory), Disk: max(0, r.Disk), VGPUs: max(0, r.VGPUs), VTPUs: max(0, r.VTPUs),
		Bandwidth: api.Bandwidth{In: max(0, r.Bandwidth.In), Out: max(0, r.Bandwidth.Out)},
	}}
}
