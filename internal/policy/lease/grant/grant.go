package grant

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/lease/block"
	"github.com/verge-edge/verge/internal/wire"
)

// Network is what a root stores of its service network beside the leases.
type Network struct {
	V        int          `json:"v"`
	Prefix   netip.Prefix `json:"prefix"`
	Pool     netip.Prefix `json:"pool"`
	Services netip.Prefix `json:"services"`
	// Floor is the least number for new workers, NextApp the number at which the search for an
	// application's begins.
	Floor   uint32 `json:"floor"`
	NextApp uint32 `json:"next_app"`
	// Recovered is when the backup was restored that raised these two.
	Recovered time.Time    `json:"recovered,omitzero"`
	Rests     []lease.Rest `json:"rests,omitempty"`
}

// NewNetwork takes random bits for its prefix.
func NewNetwork(random [5]byte, pool, services netip.Prefix) Network {
	a := [16]byte{0: 0xfd}
	copy(a[1:], random[:])
	return Network{V: wire.Version, Prefix: netip.PrefixFrom(netip.AddrFrom16(a), 48), Pool: pool, Services: services,
		Floor: 1, NextApp: 1}
}

// How much is leased at once: little at first, and more to a cluster that has more.
const (
	firstNumbers = 256
	firstSubnets = 16
	// spare is how many numbers a cluster gets beyond its need, besides a fourth of it, so that
	// workers can join while the root is away.
	spare = 8
	// A restored root does not know what was leased after its backup, so it begins this much
	// higher.
	leapNumbers = 1 << 20
	leapApps    = 1 << 16
)

// Share is the largest part of the pool, and of what it may ask for, that one cluster gets: half,
// so that a faulty cluster cannot take everything.
func share(pool netip.Prefix) int { return max(lease.SubnetsIn(pool)/2, 1) }

const maxNumbers = 1 << 24

// Leap is the network of a restored root, which reuses no number that may have been leased after
// the backup.
func (n Network) Leap(leases map[string]*wire.ClusterLease, restored time.Time) Network {
	if n.Recovered.Equal(restored) {
		return n
	}
	top := uint64(n.Floor)
	each := func(list []wire.Block) {
		for _, b := range list {
			top = max(top, uint64(b.From)+uint64(b.N))
		}
	}
	for _, l := range leases {
		each(l.Numbers)
	}
	for _, r := range n.Rests {
		each(r.Numbers)
	}
	n.Floor = uint32(min(top+leapNumbers, 1<<32-1))
	n.NextApp = (n.NextApp+leapApps)%wire.MaxRootApp + 1
	n.Recovered = restored
	return n
}

// Grant returns the blocks of clusters that need more. needs has all registered clusters, nil for
// those that have not reported their need: they get the first blocks all the same. No /24 is leased
// while the root recovers: a cluster that joined after the backup may have it.
func (n Network) Grant(leases map[string]*wire.ClusterLease, needs map[string]*wire.NetworkNeed, recovering bool,
	now time.Time) map[string]*wire.ClusterLease {
	out := map[string]*wire.ClusterLease{}
	var numbers, subnets, indexes []wire.Block // that clusters have
	for _, l := range leases {
		numbers, subnets = append(numbers, l.Numbers...), append(subnets, l.Subnets...)
		indexes = append(indexes, wire.Block{From: l.Index, N: 1})
	}
	for _, r := range lease.Awake(n.Rests, now) {
		numbers, subnets = append(numbers, r.Numbers...), append(subnets, r.Subnets...)
		indexes = append(indexes, wire.Block{From: r.Index, N: 1})
	}
	floor := max(n.Floor, 1)
	all := []wire.Block{{From: floor, N: uint32(1<<32 - 1 - uint64(floor))}}
	pool := []wire.Block{{N: uint32(lease.SubnetsIn(n.Pool))}}
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		need := needs[name]
		if need == nil {
			need = &wire.NetworkNeed{}
		}
		had := leases[name]
		next := wire.ClusterLease{V: wire.Version, Cluster: name}
		if had != nil {
			next = *had
		}
		next.Prefix, next.Pool, next.Services = n.Prefix, n.Pool, n.Services
		if next.Index == 0 && !recovering {
			if free := block.Without([]wire.Block{{From: 1, N: wire.MaxClusterIndex}}, indexes); len(free) > 0 {
				next.Index = free[0].From
				indexes = append(indexes, wire.Block{From: next.Index, N: 1})
			}
		}
		if more := lacks(block.Count(next.Numbers), need.Numbers, firstNumbers, maxNumbers); more > 0 {
			got := block.First(block.Without(all, numbers), more)
			next.Numbers, numbers = block.Union(next.Numbers, got), append(numbers, got...)
		}
		if more := lacks(block.Count(next.Subnets), need.Subnets, firstSubnets, share(n.Pool)); more > 0 && !recovering {
			got := block.First(block.Without(pool, subnets), more)
			next.Subnets, subnets = block.Union(next.Subnets, got), append(subnets, got...)
		}
		if had == nil || !same(had, &next) {
			out[name] = &next
		}
	}
	return out
}

// lacks is how many more to lease, given what a cluster has and needs.
func lacks(has, needs, least, most int) int {
	needs = min(max(needs, 0), most)
	want := min(needs+needs/4+spare, most)
	if has >= want {
		return 0
	}
	return min(max(want-has, has/2, least), most-has)
}

func same(a, b *wire.ClusterLease) bool {
	return a.Index == b.Index && a.Prefix == b.Prefix && a.Pool == b.Pool && a.Services == b.Services &&
		slices.Equal(a.Numbers, b.Numbers) && slices.Equal(a.Subnets, b.Subnets)
}

// Adopt adds to a cluster's blocks those that it reports and the root has forgotten. Blocks of
// other clusters or outside this network are ignored.
func (n Network) Adopt(cluster string, held *wire.ClusterLease,
	leases map[string]*wire.ClusterLease) *wire.ClusterLease {
	had := leases[cluster]
	if held == nil || held.Prefix != n.Prefix {
		return had
	}
	next := wire.ClusterLease{V: wire.Version, Cluster: cluster, Prefix: n.Prefix, Pool: n.Pool, Services: n.Services}
	if had != nil {
		next = *had
	}
	var numbers, subnets []wire.Block
	index := held.Index
	for other, l := range leases {
		if other == cluster {
			continue
		}
		numbers, subnets = append(numbers, l.Numbers...), append(subnets, l.Subnets...)
		if l.Index == index {
			index = 0
		}
	}
	if next.Index == 0 && index <= wire.MaxClusterIndex {
		next.Index = index
	}
	if more := block.Without(held.Numbers, numbers); block.Count(more) <= maxNumbers && !block.Has(more, 0) {
		next.Numbers = block.Union(next.Numbers, more)
	}
	outside := wire.Block{From: uint32(lease.SubnetsIn(n.Pool))}
	outside.N = 1<<32 - 1 - outside.From
	if held.Pool == n.Pool {
		next.Subnets = block.Union(next.Subnets, block.Without(held.Subnets, append(subnets, outside)))
	}
	if had != nil && same(had, &next) {
		return had
	}
	return &next
}

// Known says whether the root knows everything that a cluster holds.
func Known(had, next *wire.ClusterLease) bool {
	return had == next || had != nil && next != nil && same(had, next)
}

// Short says which pools are used up, nothing if none is.
func (n Network) Short(leases map[string]*wire.ClusterLease, needs map[string]*wire.NetworkNeed,
	recovering bool) []string {
	given, waiting, noIndex := 0, 0, 0
	for name, need := range needs {
		l := leases[name]
		if l == nil {
			continue
		}
		given += block.Count(l.Subnets)
		if need != nil && need.Subnets > block.Count(l.Subnets) {
			waiting += need.Subnets - block.Count(l.Subnets)
		}
		if l.Index == 0 {
			noIndex++
		}
	}
	var out []string
	switch {
	case waiting > 0 && recovering:
		out = append(out,
			fmt.Sprintf("%s without IPv4 in the service network: until the recovery has ended no new addresses are "+
				"given; IPv6 works", wire.Count(waiting, "worker")))
	case waiting > 0:
		out = append(out,
			fmt.Sprintf("%s without IPv4 in the service network: of %d networks in the pool %s clusters have %d; IPv6 works. "+
				"A larger pool (verge root --network-pool) can be set while no cluster has any of it",
				wire.Count(waiting, "worker"), lease.SubnetsIn(n.Pool), n.Pool, given))
	}
	if noIndex > 0 && !recovering {
		out = append(out,
			fmt.Sprintf("%s cannot give numbers to applications that begin there while the root is away: all %d are used",
				wire.Count(noIndex, "cluster"), wire.MaxClusterIndex))
	}
	return out
}
