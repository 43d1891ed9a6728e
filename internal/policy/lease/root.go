package lease

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Network is what a root knows of its service network beside what it has given. It
// is a record of its store.
type Network struct {
	V        int          `json:"v"`
	Prefix   netip.Prefix `json:"prefix"`
	Pool     netip.Prefix `json:"pool"`
	Services netip.Prefix `json:"services"`
	// Floor is the number of a worker from which on new ones are given, NextApp the
	// number of an application that is looked at first.
	Floor   uint32 `json:"floor"`
	NextApp uint32 `json:"next_app"`
	// Recovered is when the backup was restored for which these two were raised.
	Recovered time.Time `json:"recovered,omitzero"`
	Rests     []Rest    `json:"rests,omitempty"`
}

// NewNetwork with random bits for its prefix.
func NewNetwork(random [5]byte, pool, services netip.Prefix) Network {
	a := [16]byte{0: 0xfd}
	copy(a[1:], random[:])
	return Network{V: wire.Version, Prefix: netip.PrefixFrom(netip.AddrFrom16(a), 48), Pool: pool, Services: services,
		Floor: 1, NextApp: 1}
}

// How much is given at once: little at first, and more to who has more.
const (
	firstNumbers = 256
	firstSubnets = 16
	// spare is how many more a cluster has than it needs, so that workers join it
	// while the root is away: these and a fourth of what it needs.
	spare = 8
	// A restored root does not know what was given after its backup. So it begins
	// so much higher.
	leapNumbers = 1 << 20
	leapApps    = 1 << 16
)

// Share is the largest part of the pool, and of what it may ask for at all, that
// one cluster gets: half, so that a faulty one cannot take everything.
func share(pool netip.Prefix) int { return max(SubnetsIn(pool)/2, 1) }

const maxNumbers = 1 << 24

// Leap is the network of a root that was restored, so that it gives no number
// which the one before it may have given after the backup.
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

// Grant is what the clusters that need more are to have. needs has all clusters
// that are registered, nil for those that have not said what they need yet: they
// get the first of it all the same. While the root recovers /24s are not given: it
// cannot know which a cluster has that joined after the backup.
func (n Network) Grant(leases map[string]*wire.ClusterLease, needs map[string]*wire.NetworkNeed, recovering bool,
	now time.Time) map[string]*wire.ClusterLease {
	out := map[string]*wire.ClusterLease{}
	var numbers, subnets, indexes []wire.Block // that somebody has
	for _, l := range leases {
		numbers, subnets = append(numbers, l.Numbers...), append(subnets, l.Subnets...)
		indexes = append(indexes, wire.Block{From: l.Index, N: 1})
	}
	for _, r := range Awake(n.Rests, now) {
		numbers, subnets = append(numbers, r.Numbers...), append(subnets, r.Subnets...)
		indexes = append(indexes, wire.Block{From: r.Index, N: 1})
	}
	floor := max(n.Floor, 1)
	all := []wire.Block{{From: floor, N: uint32(1<<32 - 1 - uint64(floor))}}
	pool := []wire.Block{{N: uint32(SubnetsIn(n.Pool))}}
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
			if free := Without([]wire.Block{{From: 1, N: wire.MaxClusterIndex}}, indexes); len(free) > 0 {
				next.Index = free[0].From
				indexes = append(indexes, wire.Block{From: next.Index, N: 1})
			}
		}
		if more := lacks(Count(next.Numbers), need.Numbers, firstNumbers, maxNumbers); more > 0 {
			got := first(Without(all, numbers), more)
			next.Numbers, numbers = Union(next.Numbers, got), append(numbers, got...)
		}
		if more := lacks(Count(next.Subnets), need.Subnets, firstSubnets, share(n.Pool)); more > 0 && !recovering {
			got := first(Without(pool, subnets), more)
			next.Subnets, subnets = Union(next.Subnets, got), append(subnets, got...)
		}
		if had == nil || !same(had, &next) {
			out[name] = &next
		}
	}
	return out
}

// lacks is how many more somebody gets who has some and needs some.
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

// Adopt is what a cluster has where it holds more than the root remembers. What
// somebody else has is not believed, and what is not of this network is not either.
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
	if more := Without(held.Numbers, numbers); Count(more) <= maxNumbers && !Has(more, 0) {
		next.Numbers = Union(next.Numbers, more)
	}
	outside := wire.Block{From: uint32(SubnetsIn(n.Pool))}
	outside.N = 1<<32 - 1 - outside.From
	if held.Pool == n.Pool {
		next.Subnets = Union(next.Subnets, Without(held.Subnets, append(subnets, outside)))
	}
	if had != nil && same(had, &next) {
		return had
	}
	return &next
}

// Known says whether nothing of what a cluster holds is new to the root.
func Known(had, next *wire.ClusterLease) bool {
	return had == next || had != nil && next != nil && same(had, next)
}

// Short says in words what of the pools is used up, nothing if all is well.
func (n Network) Short(leases map[string]*wire.ClusterLease, needs map[string]*wire.NetworkNeed,
	recovering bool) []string {
	given, waiting, noIndex := 0, 0, 0
	for name, need := range needs {
		l := leases[name]
		if l == nil {
			continue
		}
		given += Count(l.Subnets)
		if need != nil && need.Subnets > Count(l.Subnets) {
			waiting += need.Subnets - Count(l.Subnets)
		}
		if l.Index == 0 {
			noIndex++
		}
	}
	var out []string
	switch {
	case waiting > 0 && recovering:
		out = append(out,
			fmt.Sprintf("%s without IPv4 in the service network: until the recovery has ended no new addresses are given; "+
				"IPv6 works", wire.Count(waiting, "worker")))
	case waiting > 0:
		out = append(out,
			fmt.Sprintf("%s without IPv4 in the service network: of %d networks in the pool %s clusters have %d; IPv6 works. "+
				"A larger pool (verge root --network-pool) can be set while no cluster has any of it",
				wire.Count(waiting, "worker"), SubnetsIn(n.Pool), n.Pool, given))
	}
	if noIndex > 0 && !recovering {
		out = append(out,
			fmt.Sprintf("%s cannot give numbers to applications that begin there while the root is away: all %d are used",
				wire.Count(noIndex, "cluster"), wire.MaxClusterIndex))
	}
	return out
}
