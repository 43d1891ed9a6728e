package lease

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Assign is what the workers of a cluster are to have of what it was given: what
// they have where that is still theirs to have. have has the leases by worker.
func Assign(l *wire.ClusterLease, have map[string]*wire.Lease, rests []Rest, workers []string,
	now time.Time) map[string]*wire.Lease {
	out := map[string]*wire.Lease{}
	if l == nil {
		return out
	}
	numbers, subnets := free(l, have, rests, now)
	taken := map[uint32]bool{} // by those before
	networks := map[netip.Prefix]bool{}
	names := slices.Sorted(slices.Values(workers))
	var without []string
	next := map[string]wire.Lease{}
	for _, name := range names {
		w := wire.Lease{V: wire.Version, Cluster: l.Cluster, Worker: name, Prefix: l.Prefix, Pool: l.Pool,
			Services: l.Services}
		if old := have[name]; old != nil {
			if old.Prefix == l.Prefix && Has(l.Numbers, old.Number) && !taken[old.Number] {
				w.Number = old.Number
			}
			if n, ok := SubnetNumber(l.Pool, old.IPv4); ok && Has(l.Subnets, n) && !networks[old.IPv4] {
				w.IPv4 = old.IPv4
			}
		}
		if w.Number == 0 || !w.IPv4.IsValid() {
			without = append(without, name)
		}
		taken[w.Number], networks[w.IPv4] = true, true
		next[name] = w
	}
	// Only now, so that nobody is given what one of the others has.
	for _, name := range without {
		w := next[name]
		if got := first(numbers, 1); w.Number == 0 && len(got) > 0 {
			w.Number, numbers = got[0].From, Without(numbers, got)
		}
		if got := first(subnets, 1); !w.IPv4.IsValid() && len(got) > 0 {
			w.IPv4, subnets = Subnet(l.Pool, got[0].From), Without(subnets, got)
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

// free is what a cluster can give.
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
	return Without(l.Numbers, n), Without(l.Subnets, s)
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

// Unaccounted is whose a rest of Fence is.
const Unaccounted = "workers that joined after the backup"

// Fence is what must rest at a cluster that was restored from a backup: all that
// it has and that none of its workers is known to have, since a worker that joined
// after the backup may.
func Fence(l *wire.ClusterLease, have map[string]*wire.Lease, rests []Rest, now, valid time.Time) []Rest {
	if l == nil {
		return nil
	}
	numbers, subnets := free(l, have, rests, now)
	return Rests(Unaccounted, 0, numbers, subnets, now, valid)
}

// Need of a cluster with so many workers.
func Need(l *wire.ClusterLease, rests []Rest, workers int, now time.Time) *wire.NetworkNeed {
	need := &wire.NetworkNeed{Numbers: workers, Subnets: workers}
	if l == nil {
		return need
	}
	for _, r := range Awake(rests, now) {
		// Within what it has: what was taken away with its blocks is not missed.
		need.Numbers += Count(r.Numbers) - Count(Without(r.Numbers, l.Numbers))
		need.Subnets += Count(r.Subnets) - Count(Without(r.Subnets, l.Subnets))
	}
	return need
}

// Takes says whether a worker may have what it says that it has, so that a
// restored cluster goes on with it: it is of the cluster's and nobody else's.
func Takes(l *wire.ClusterLease, have map[string]*wire.Lease, w *wire.Lease) bool {
	if l == nil || w == nil || w.Cluster != l.Cluster || w.Prefix != l.Prefix || w.Pool != l.Pool ||
		!Has(l.Numbers, w.Number) {
		return false
	}
	if w.IPv4.IsValid() {
		if n, ok := SubnetNumber(l.Pool, w.IPv4); !ok || !Has(l.Subnets, n) {
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
