package place

import (
	"cmp"
	"slices"

	"github.com/verge-edge/verge/internal/policy/place/sorted"
)

// With the scheduler nearest-demand and a fixed number of replicas, each cluster gets about
// the same share of the replicas as of the requests: the next one goes where the requests per
// replica, counting it, are most (the D'Hondt method).

// leadGain is by what factor the requests per replica must be higher in another cluster to
// make moving a replica worthwhile; firstGain if it would be the first there, which brings
// all requests that enter there nearer.
const leadGain, firstGain = 2, 1.2

// lead divides count replicas among the bids by the requests that enter at their clusters,
// and returns how many remain. The order of the bids decides where nothing enters. Those too
// far by coordinates from what must be near get only what the others have no room for,
// whatever enters there: they would most likely return it.
func lead(bids *sorted.List[bid], count int) (shares []ShareOut, rest int) {
	got := make([]int, bids.Len())
	for ; count > 0; count-- {
		best, most := -1, -1.0
		for i := range got {
			b := bids.At(i)
			if got[i] >= b.Expected || best >= 0 && b.unlikely() && !bids.At(best).unlikely() {
				continue
			}
			each := b.entering / float64(b.Same+got[i]+1)
			if each > most || bids.At(best).unlikely() && !b.unlikely() {
				best, most = i, each
			}
		}
		if best < 0 {
			break
		}
		got[best]++
	}
	for i, n := range got {
		if n > 0 {
			shares = append(shares, ShareOut{Cluster: bids.At(i).id, Count: n})
		}
	}
	return shares, count
}

// byEntering orders bids by the requests per replica with one more, most first; those too far
// by coordinates come last.
func byEntering(a, b *bid) int {
	if r := cmp.Compare(count(a.unlikely()), count(b.unlikely())); r != 0 {
		return r
	}
	return cmp.Compare(b.entering/float64(b.Same+1), a.entering/float64(a.Same+1))
}

// entered says whether requests are known to enter at any of the bids.
func entered(bids []bid) bool {
	return slices.ContainsFunc(bids, func(b bid) bool { return b.entering > 0 })
}

// Leading is the replicas and the traffic of a service in a cluster.
type Leading struct {
	Cluster string
	// Replicas that it has; Entering is the requests per second that enter there.
	Replicas int
	Entering float64
	// Room: it could take another.
	Room bool
}

// Lead returns from which cluster to which a replica should move to be nearer to where
// requests enter: where each replica would then have more than twice as many requests as
// each has now at its source, or a fifth more if it would be the first. Moving it back does
// not satisfy that. False if nothing should move.
func Lead(list []Leading) (from, to string, ok bool) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Leading) int { return cmp.Compare(a.Cluster, b.Cluster) })
	most, least, gain := 0.0, 0.0, 0.0
	for _, c := range list {
		rate := cleanRate(c.Entering)
		if each := rate / float64(max(0, c.Replicas)+1); c.Room && each > most {
			to, most, gain = c.Cluster, each, leadGain
			if c.Replicas <= 0 {
				gain = firstGain
			}
		}
		if each := rate / float64(max(1, c.Replicas)); c.Replicas > 0 && (from == "" || each < least) {
			from, least = c.Cluster, each
		}
	}
	if from == "" || to == "" || from == to || most <= gain*least {
		return "", "", false
	}
	return from, to, true
}

func (b *bid) unlikely() bool { return b.reach.chance == unlikely }

// Unlikely says that by coordinates no worker of a cluster is near enough for a request.
// That is no proof, but nothing that runs elsewhere is moved there.
func Unlikely(c ClusterView, req Request) bool {
	req = cleanRequest(req)
	cleanCluster(&c, &req, false)
	r, removed := reaches(&c, &req)
	return removed.filter == passed && r.chance == unlikely
}
