package amount

import (
	"fmt"
	"math"

	"github.com/verge-edge/verge/api"
)

// Clean counts amounts below zero as zero.
func Clean(r api.Resources) api.Resources {
	return Larger(r, api.Resources{})
}

// Dominant is the largest share of a resource, and which that is.
func Dominant(total, used *Vec) (share float64, of int) {
	for j := range Kinds {
		if total[j] > 0 {
			if s := float64(used[j]) / float64(total[j]); s > share {
				share, of = s, j
			}
		}
	}
	return share, of
}

// DominantShare is the largest of the shares that used is of total, and the resource of which
// it is that: "cpu"; 0 and "" where nothing is used.
func DominantShare(total, used api.Resources) (share float64, of string) {
	t, u := ToVec(Clean(total)), ToVec(Clean(used))
	share, j := Dominant(&t, &u)
	if share == 0 {
		return 0, ""
	}
	return share, Name(j)
}

// Slack is the relative error granted to sums of floating-point numbers, always
// to the side that keeps a bound true.
const Slack = 1e-12

// Kinds is how many kinds of resource an instance reserves. Everything that
// loops over them does so in this order, which is also the order of the filters.
const Kinds = 7

// Indices of a Vec.
const (
	CPU = iota
	Memory
	Disk
	GPU
	TPU
	In
	Out
)

// Accelerators are the resources that are left to who asks for them.
var Accelerators = [...]int{GPU, TPU}

// Vec is an amount of each resource: millicores, bytes, thousandths of a device,
// bits per second.
type Vec [Kinds]int64

// ToVec are the amounts of r by kind.
func ToVec(r api.Resources) Vec {
	return Vec{
		int64(r.CPU), int64(r.Memory), int64(r.Disk), int64(r.VGPUs), int64(r.VTPUs), int64(r.Bandwidth.In),
		int64(r.Bandwidth.Out),
	}
}

// Resources are the amounts of v.
func (v Vec) Resources() api.Resources {
	return api.Resources{
		CPU: api.CPU(v[CPU]), Memory: api.Bytes(v[Memory]), Disk: api.Bytes(v[Disk]), VGPUs: api.Units(v[GPU]),
		VTPUs:     api.Units(v[TPU]),
		Bandwidth: api.Bandwidth{In: api.Bitrate(v[In]), Out: api.Bitrate(v[Out])},
	}
}

// resourceNames are those of the filters, as people and records have them.
var resourceNames = [Kinds]string{"cpu", "memory", "disk", "vgpus", "vtpus", "bandwidth in", "bandwidth out"}

// Name of a kind, as filters and records have it.
func Name(j int) string { return resourceNames[j] }

// Add returns a + b per resource; it saturates instead of overflowing.
func Add(a, b api.Resources) api.Resources {
	sum, other := ToVec(a), ToVec(b)
	for j := range sum {
		sum[j] = AddInt(sum[j], other[j])
	}
	return sum.Resources()
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
	left, other := ToVec(a), ToVec(b)
	for j := range left {
		left[j] = SubInt(left[j], other[j])
	}
	return left.Resources()
}

// Larger is the larger of both per resource.
func Larger(a, b api.Resources) api.Resources {
	most, other := ToVec(a), ToVec(b)
	for j := range most {
		most[j] = max(most[j], other[j])
	}
	return most.Resources()
}

// AddInt is a + b, at most the largest integer; amounts below zero count as zero.
func AddInt(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

// SubInt is a − b, or 0 where that would be less; amounts below zero count as zero.
func SubInt(a, b int64) int64 { return max(0, max(0, a)-max(0, b)) }

// Fits says whether demand can be reserved out of free. If not, lacking names
// the first resource (in the order of a vec) that is short, with both amounts:
// "needs 512Mi memory, 380Mi free".
func Fits(free, demand api.Resources) (ok bool, lacking string) {
	f, d := ToVec(free), ToVec(demand)
	for j := range Kinds {
		if d[j] > max(0, f[j]) {
			return false, fmt.Sprintf("needs %s %s, %s free", Needed(j, d[j]), Name(j), Available(j, f[j]))
		}
	}
	return true, ""
}

// Counts says whether a resource does for a demand: accelerators and bandwidth only
// where they are asked for.
func Counts(j int, demand *Vec) bool { return j <= Disk || demand[j] > 0 }

// FirstShort is the first resource of which there is less than demanded, or -1.
func FirstShort(demand, free *Vec) int {
	for j := range Kinds {
		if demand[j] > free[j] {
			return j
		}
	}
	return -1
}
