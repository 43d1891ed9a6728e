package place

import (
	"fmt"
	"math"
	"strconv"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// resources is how many kinds of resource an instance reserves. Everything that
// loops over them does so in this order, which is also the order of the filters.
const resources = 7

// Indices of a vec.
const (
	rCPU = iota
	rMemory
	rDisk
	rGPU
	rTPU
	rIn
	rOut
)

// accelerators are the resources that are left to who asks for them.
var accelerators = [...]int{rGPU, rTPU}

// vec is an amount of each resource: millicores, bytes, thousandths of a device,
// bits per second.
type vec [resources]int64

func toVec(r api.Resources) vec {
	return vec{
		int64(r.CPU), int64(r.Memory), int64(r.Disk), int64(r.VGPUs), int64(r.VTPUs), int64(r.Bandwidth.In), int64(r.Bandwidth.Out),
	}
}

func (v vec) resources() api.Resources {
	return api.Resources{
		CPU: api.CPU(v[rCPU]), Memory: api.Bytes(v[rMemory]), Disk: api.Bytes(v[rDisk]), VGPUs: api.Units(v[rGPU]), VTPUs: api.Units(v[rTPU]),
		Bandwidth: api.Bandwidth{In: api.Bitrate(v[rIn]), Out: api.Bitrate(v[rOut])},
	}
}

// resourceNames are those of the filters, as people and records have them.
var resourceNames = [resources]string{"cpu", "memory", "disk", "vgpus", "vtpus", "bandwidth in", "bandwidth out"}

func resourceName(j int) string { return resourceNames[j] }

// spreadsOf are the distributions of what is free, in the order of a vec.
func spreadsOf(a *wire.Aggregate) [resources]*wire.Spread {
	return [resources]*wire.Spread{&a.CPU, &a.Memory, &a.Disk, &a.VGPUs, &a.VTPUs, &a.In, &a.Out}
}

// Add returns a + b per resource; it saturates instead of overflowing.
func Add(a, b api.Resources) api.Resources {
	sum, other := toVec(a), toVec(b)
	for j := range sum {
		sum[j] = addInt(sum[j], other[j])
	}
	return sum.resources()
}

// Times returns n times a, saturated; n below zero counts as zero.
func Times(a api.Resources, n int) api.Resources {
	var out api.Resources
	for ; n > 0; n >>= 1 { // by doubling: Add knows all resources, and saturates
		if n&1 == 1 {
			out = Add(out, a)
		}
		a = Add(a, a)
	}
	return out
}

// Sub returns a − b per resource, zero where b is larger: what is reserved
// twice is not owed back. A negative a or b counts as zero.
func Sub(a, b api.Resources) api.Resources {
	left, other := toVec(a), toVec(b)
	for j := range left {
		left[j] = subInt(left[j], other[j])
	}
	return left.resources()
}

// Larger is the larger of both per resource.
func Larger(a, b api.Resources) api.Resources {
	most, other := toVec(a), toVec(b)
	for j := range most {
		most[j] = max(most[j], other[j])
	}
	return most.resources()
}

func addInt(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

func subInt(a, b int64) int64 { return max(0, max(0, a)-max(0, b)) }

// Fits says whether demand can be reserved out of free. If not, lacking names
// the first resource (in the order of a vec) that is short, with both amounts:
// "needs 512Mi memory, 380Mi free".
func Fits(free, demand api.Resources) (ok bool, lacking string) {
	f, d := toVec(free), toVec(demand)
	for j := range resources {
		if d[j] > max(0, f[j]) {
			return false, fmt.Sprintf("needs %s %s, %s free", needed(j, d[j]), resourceName(j), available(j, f[j]))
		}
	}
	return true, ""
}

// Aggregate sums up the workers of a cluster for the root: the distribution of
// what is free over the ready ones, their capacity together, and how many are
// ready and suspect; nothing else of it is set. Deviations are those of the whole
// population (÷ n), which is what the bounds of Expect are about.
func Aggregate(workers []WorkerView) wire.Aggregate {
	var a wire.Aggregate
	var sum, largest vec
	for i := range workers {
		if workers[i].Suspect {
			a.Suspect++
			continue
		}
		a.Workers++
		a.Capacity = Add(a.Capacity, cleanResources(workers[i].Capacity))
		for j, f := range freeOf(&workers[i]) {
			sum[j] = addInt(sum[j], f)
			largest[j] = max(largest[j], f)
		}
	}
	if a.Workers == 0 {
		return a
	}
	n := float64(a.Workers)
	var mean, squares [resources]float64
	for j := range resources {
		mean[j] = float64(sum[j]) / n
	}
	// The second pass keeps precision: with Σx² − n·mean² a fleet of equal large
	// disks gets a deviation made of rounding errors.
	for i := range workers {
		if workers[i].Suspect {
			continue
		}
		for j, f := range freeOf(&workers[i]) {
			off := float64(f) - mean[j]
			squares[j] += off * off
		}
	}
	for j, s := range spreadsOf(&a) {
		*s = wire.Spread{Sum: float64(sum[j]), Mean: mean[j], Dev: math.Sqrt(squares[j] / n), Max: float64(largest[j])}
	}
	return a
}

// freeOf is what a worker has left to reserve; never negative.
func freeOf(w *WorkerView) vec {
	c, u := toVec(w.Capacity), toVec(w.Used)
	for j := range resources {
		c[j] = subInt(c[j], u[j])
	}
	return c
}

// needed and available write an amount of resource j for people: exactly where
// a unit allows, else rounded to a tenth, up and down respectively, so that a
// shortage never reads like a fit.
func needed(j int, n int64) string    { return amount(j, n, math.Ceil) }
func available(j int, n int64) string { return amount(j, n, math.Floor) }

func amount(j int, n int64, round func(float64) float64) string {
	n = max(0, n)
	switch j {
	case rCPU:
		return api.CPU(n).String()
	case rGPU, rTPU:
		return api.Units(n).String()
	case rIn, rOut:
		return bits(n, round)
	}
	for i, unit := range [...]string{"Ti", "Gi", "Mi", "Ki"} {
		size := int64(1) << (10 * (4 - i))
		if n < size {
			continue
		}
		if tenths := float64(n) / float64(size) * 10; n%(size>>10) != 0 || tenths == math.Trunc(tenths) {
			return strconv.FormatFloat(round(tenths)/10, 'f', -1, 64) + unit
		}
		break // the next smaller unit writes it exactly
	}
	return api.Bytes(n).String()
}

// bits is amount for a bandwidth, in powers of 1000.
func bits(n int64, round func(float64) float64) string {
	for _, u := range [...]struct {
		name string
		size int64
	}{{"Gbps", 1e9}, {"Mbps", 1e6}, {"kbps", 1e3}} {
		if n < u.size {
			continue
		}
		if tenths := float64(n) / float64(u.size) * 10; n%(u.size/1000) != 0 || tenths == math.Trunc(tenths) {
			return strconv.FormatFloat(round(tenths)/10, 'f', -1, 64) + u.name
		}
		break
	}
	return api.Bitrate(n).String()
}
