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
const resources = 3

// vec is an amount of each resource, in millicores and bytes.
type vec [resources]int64

func toVec(r api.Resources) vec { return vec{int64(r.CPU), int64(r.Memory), int64(r.Disk)} }

func resourceName(j int) string {
	switch j {
	case 0:
		return "cpu"
	case 1:
		return "memory"
	default:
		return "disk"
	}
}

// Add returns a + b per resource; it saturates instead of overflowing.
func Add(a, b api.Resources) api.Resources {
	return api.Resources{
		CPU:    api.CPU(addInt(int64(a.CPU), int64(b.CPU))),
		Memory: api.Bytes(addInt(int64(a.Memory), int64(b.Memory))),
		Disk:   api.Bytes(addInt(int64(a.Disk), int64(b.Disk))),
	}
}

// Sub returns a − b per resource, zero where b is larger: what is reserved
// twice is not owed back. A negative a or b counts as zero.
func Sub(a, b api.Resources) api.Resources {
	return api.Resources{
		CPU:    api.CPU(subInt(int64(a.CPU), int64(b.CPU))),
		Memory: api.Bytes(subInt(int64(a.Memory), int64(b.Memory))),
		Disk:   api.Bytes(subInt(int64(a.Disk), int64(b.Disk))),
	}
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
// the first resource (cpu, memory, disk) that is short, with both amounts:
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
// ready and suspect. Deviations are those of the whole population (÷ n), which
// is what the bounds of Expect are about.
func Aggregate(workers []WorkerView) (cpu, mem, disk wire.Spread, capacity api.Resources, ready, suspect int) {
	var sum, largest vec
	for i := range workers {
		if workers[i].Suspect {
			suspect++
			continue
		}
		ready++
		capacity = Add(capacity, cleanResources(workers[i].Capacity))
		for j, f := range freeOf(&workers[i]) {
			sum[j] = addInt(sum[j], f)
			largest[j] = max(largest[j], f)
		}
	}
	if ready == 0 {
		return cpu, mem, disk, capacity, 0, suspect
	}
	var mean, squares [resources]float64
	for j := range resources {
		mean[j] = float64(sum[j]) / float64(ready)
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
	spread := func(j int) wire.Spread {
		return wire.Spread{
			Sum: float64(sum[j]), Mean: mean[j],
			Dev: math.Sqrt(squares[j] / float64(ready)), Max: float64(largest[j]),
		}
	}
	return spread(0), spread(1), spread(2), capacity, ready, suspect
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
	if j == 0 {
		return api.CPU(n).String()
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
