package lease

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/policy/lease/block"
	"github.com/verge-edge/verge/internal/wire"
)

// Assign divides what a cluster was given among its workers. A worker keeps its lease as long as
// that is still within it. have has the leases by worker.
func Assign(l *wire.ClusterLease, have map[string]*wire.Lease, rests []Rest, workers []string,
	now time.Time) map[string]*wire.Lease {
	out := map[string]*wire.Lease{}
	if l == nil {
		return out
	}
	numbers, subnets := free(l, have, rests, now)
	taken := map[uint32]bool{} // by workers before this one
	networks := map[netip.Prefix]bool{}
	names := slices.Sorted(slices.Values(workers))
	var without []string
	next := map[string]wire.Lease{}
	for _, name := range names {
		w := wire.Lease{V: wire.Version, Cluster: l.Cluster, Worker: name, Prefix: l.Prefix, Pool: l.Pool,
			Services: l.Services}
		if old := have[name]; old != nil {
			if old.Prefix == l.Prefix && block.Has(l.Numbers, old.Number) && !taken[old.Number] {
				w.Number = old.Number
			}
			if n, ok := SubnetNumber(l.Pool, old.IPv4); ok && block.Has(l.Subnets, n) && !networks[old.IPv4] {
				w.IPv4 = old.IPv4
			}
		}
		if w.Number == 0 || !w.IPv4.IsValid() {
			without = append(without, name)
		}
		taken[w.Number], networks[w.IPv4] = true, true
		next[name] = w
	}
	// New leases come last, so that none conflicts with one that a worker has.
	for _, name := range without {
		w := next[name]
		if got := block.First(numbers, 1); w.Number == 0 && len(got) > 0 {
			w.Number, numbers = got[0].From, block.Without(numbers, got)
		}
		if got := block.First(subnets, 1); !w.IPv4.IsValid() && len(got) > 0 {
			w.IPv4, subnets = Subnet(l.Pool, got[0].From), block.Without(subnets, got)
		}
		next[name] = w
	}
	for name, w := range next {
		if w.Number == 0 {
			continue // without a number there is nothing to lease
		}
		if old := have[name]; old == nil || *old != w {
			out[name] = &w
		}
	}
	return out
}

// free is what a cluster has left to give.
func free(l *wire.ClusterLease, have map[string]*wire.Lease, rests []Rest, now time.Time) (numbers,
	subnets []wire.Block) {
	var n, s []wire.Block
	for _, w := range have {
		a, b := Parts(w)
		n, s = append(n, a...), append(s, b...)
	}
	for _, r := range Awake(rests, now) {
		n, s = append(n, r.Numbers...), append(s, r.Subnets...)
	}
	return block.Without(l.Numbers, n), block.Without(l.Subnets, s)
}

// Parts of a worker's lease as blocks.
func Parts(w *wire.Lease) (numbers, subnets []wire.Block) {
	if w == nil {
		return nil, nil
	}
	numbers = []wire.Block{{From: w.Number, N: 1}}
	if n, ok := SubnetNumber(w.Pool, w.IPv4); ok {
		subnets = []wire.Block{{From: n, N: 1}}
	}
	return numbers, subnets
}

// Unaccounted is the former owner in a rest of Fence.
const Unaccounted = "workers that joined after the backup"

// Fence is what must rest at a cluster that was restored from a backup: everything that none of its
// known workers has, since a worker that joined after the backup may have it.
func Fence(l *wire.ClusterLease, have map[string]*wire.Lease, rests []Rest, now, valid time.Time) []Rest {
	if l == nil {
		return nil
	}
	numbers, subnets := free(l, have, rests, now)
	return Rests(Unaccounted, 0, numbers, subnets, now, valid)
}

// Need of a cluster with a number of workers.
func Need(l *wire.ClusterLease, rests []Rest, workers int, now time.Time) *wire.NetworkNeed {
	need := &wire.NetworkNeed{Numbers: workers, Subnets: workers}
	if l == nil {
		return need
	}
	for _, r := range Awake(rests, now) {
		// Only within its blocks: what was taken away with others is not needed.
		need.Numbers += block.Count(r.Numbers) - block.Count(block.Without(r.Numbers, l.Numbers))
		need.Subnets += block.Count(r.Subnets) - block.Count(block.Without(r.Subnets, l.Subnets))
	}
	return need
}

// Takes says whether a restored cluster may accept the lease that a worker reports: it lies within
// the cluster's blocks, and no other worker has it.
func Takes(l *wire.ClusterLease, have map[string]*wire.Lease, w *wire.Lease) bool {
	if l == nil || w == nil || w.Cluster != l.Cluster || w.Prefix != l.Prefix || w.Pool != l.Pool ||
		!block.Has(l.Numbers, w.Number) {
		return false
	}
	if w.IPv4.IsValid() {
		if n, ok := SubnetNumber(l.Pool, w.IPv4); !ok || !block.Has(l.Subnets, n) {
			return false
		}
	}
	for name, o := range maps.All(have) {
		if name != w.Worker && (o.Number == w.Number || w.IPv4.IsValid() && o.IPv4 == w.IPv4) {
			return false
		}
	}
	return true
}
