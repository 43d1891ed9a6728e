package amount

import (
	"fmt"
	"math"

	"github.com/verge-edge/verge/api"
)

// Clean returns r with negative amounts set to zero.
func Clean(r api.Resources) api.Resources {
	for _, x := range ToVec(r) {
		if x < 0 {
			return Larger(r, api.Resources{})
		}
	}
	return r
}

// Dominant returns the largest share of any resource, and the index of that resource.
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

// DominantShare returns the largest share of used in total, and the name of its resource
// ("cpu"); 0 and "" if nothing is used.
func DominantShare(total, used api.Resources) (share float64, of string) {
	t, u := ToVec(Clean(total)), ToVec(Clean(used))
	share, j := Dominant(&t, &u)
	if share == 0 {
		return 0, ""
	}
	return share, Name(j)
}

// Slack is the relative error allowed for floating-point sums, always to the side
// that keeps a bound true.
const Slack = 1e-12

// Kinds is the number of kinds of resource an instance reserves. All loops over them
// use the order of the constants below, which is also the order of the filters.
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

// Accelerators are the resources kept free for instances that request them.
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

// resourceNames are the names in filters and records.
var resourceNames = [Kinds]string{"cpu", "memory", "disk", "vgpus", "vtpus", "bandwidth in", "bandwidth out"}

// Name returns the name of a kind in filters and records.
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

// Sub returns a − b per resource, zero if b is larger: double reservations leave no
// debt. A negative a or b counts as zero.
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

// AddInt returns a + b; it saturates instead of overflowing.
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

// SubInt returns a − b, at least 0; negative amounts count as zero.
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

// Counts says whether a resource matters to a demand: accelerators and bandwidth only
// if requested.
func Counts(j int, demand *Vec) bool { return j <= Disk || demand[j] > 0 }

// FirstShort returns the first resource of which less is free than demanded, or -1.
func FirstShort(demand, free *Vec) int {
	for j := range Kinds {
		if demand[j] > free[j] {
			return j
		}
	}
	return -1
}
