package place

import (
	"cmp"
	"slices"
)

// Of a service with the scheduler nearest-demand and a fixed number of replicas each
// cluster has about as large a part as its part of the requests: the next goes to where
// most requests enter for each replica that would be there then (the method of d'Hondt).

// leadGain is how many times as many requests a replica must have elsewhere before it is
// worth moving it to another cluster, firstGain where it would be the first there: all
// requests that enter there come nearer by it.
const leadGain, firstGain = 2, 1.2

// lead gives count replicas to the bids by what enters at their clusters, and says how
// many remain. Bids are in the order in which they are taken where nothing enters. Those
// that are too far by coordinates from what must be near get only what the others have no
// room for, whatever enters there: they would most likely give it back.
func lead(bids []bid, count int) (shares []ShareOut, rest int) {
	got := make([]int, len(bids))
	for ; count > 0; count-- {
		best, most := -1, -1.0
		for i, b := range bids {
			if got[i] >= b.expected || best >= 0 && b.unlikely() && !bids[best].unlikely() {
				continue
			}
			each := b.entering / float64(b.same+got[i]+1)
			if each > most || bids[best].unlikely() && !b.unlikely() {
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
			shares = append(shares, ShareOut{Cluster: bids[i].id, Count: n})
		}
	}
	return shares, count
}

// byEntering orders bids by the requests for each replica with one more, most first, and
// after all others those that are too far by coordinates.
func byEntering(a, b bid) int {
	if r := cmp.Compare(count(a.unlikely()), count(b.unlikely())); r != 0 {
		return r
	}
	return cmp.Compare(b.entering/float64(b.same+1), a.entering/float64(a.same+1))
}

// entered says whether requests are known to enter at any of the bids.
func entered(bids []bid) bool {
	return slices.ContainsFunc(bids, func(b bid) bool { return b.entering > 0 })
}

// Leading is what a cluster has of a service, and what is asked for there.
type Leading struct {
	Cluster string
	// Replicas that it has, Entering the requests per second that come in there.
	Replicas int
	Entering float64
	// Room: it could take another.
	Room bool
}

// Lead says from which cluster to which a replica should move to be nearer to where the
// requests enter: it would have more than twice as many there as each has where it is, or
// a fifth more where it would be the first. Moving it back does not satisfy that. False where nothing is to move.
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

// Unlikely says that by coordinates no worker of a cluster keeps what a request must be
// near, which proves nothing: nothing is moved there that runs elsewhere.
func Unlikely(c ClusterView, req Request) bool {
	req = cleanRequest(req)
	cleanCluster(&c, &req, false)
	r, removed := reaches(&c, &req)
	return removed.filter == passed && r.chance == unlikely
}
