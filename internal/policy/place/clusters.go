package place

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/estimate"
	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/policy/place/share"
	"github.com/verge-edge/verge/internal/policy/place/sorted"
	"github.com/verge-edge/verge/internal/wire"
)

// Kinds of decisions.
const (
	KindClusters = "clusters"
	KindWorker   = "worker"
)

// RankClusters is the root's step: it divides req.Count replicas among the clusters.
// Clusters that cannot or should not take any are filtered in the order connected,
// cordoned, affinity.cluster, affinity.area, anti_affinity.cluster, anti_affinity.area,
// runtime, plugin, workers, devices, architecture, affinity.labels, location,
// affinity.polygon, anti_affinity.labels, anti_affinity.service, latency, distance,
// refused, then the resources as in Schedule. The rest are ordered by
//
//  0. whether instances of a lower priority must make room, those without first,
//  1. Request.Latency: first clusters whose centre is near enough, then those where part
//     of the cluster may be or nothing is known, then those too far by coordinates, which
//     prove nothing; among each, the shortest round trip first,
//  2. how many of the objects of Request.Data they lack, fewest first,
//  3. how many of the wanted replicas they are expected to take, most first,
//  4. how many instances of the service they already have, fewest first,
//  5. the free share of the demand's dominant resource, largest first,
//  6. their id,
//
// and each takes as many as it is expected to take until none is left. With Spread "soft"
// they first take one each in turn, those with fewer instances of the service before
// others; if Request.Latency is set, only clusters whose centre is near enough do, and
// clusters that lack more objects share what the others have no room for. With the
// scheduler nearest-demand the clusters with most entering requests per replica come first
// and the replicas are divided by that; clusters too far by coordinates get only what the
// others have no room for. The clusters' ids must be distinct. Request.Avoid names workers
// and is ignored. A count of zero or less places nothing.
func RankClusters(clusters []ClusterView, req Request) Decision {
	req = cleanRequest(req)
	d := Decision{V: wire.Version, Kind: KindClusters, Request: req, Candidates: len(clusters)}
	keep := len(clusters) <= MaxInputs
	if !keep {
		d.InputsOmitted = len(clusters)
	}

	log := newFilterLog(true, &req)
	bids := make([]bid, 0, len(clusters))
	// One at a time, and copied in full only for a record: with a thousand clusters,
	// copying dominated the cost of a decision.
	var c ClusterView
	order := inOrder(clusters)
	for n := range clusters {
		if c = clusters[n]; order != nil {
			c = clusters[order[n]]
		}
		cleanCluster(&c, &req, keep)
		if keep {
			d.Clusters = append(d.Clusters, c)
		}
		b, removed := offer(&c, &req)
		if removed.filter != passed {
			log.remove(removed, c.ID)
			continue
		}
		b.entering = c.Entering
		if b.lacks = 0; len(req.Data) > 0 {
			b.lacks = c.Lacks
		}
		bids = append(bids, b)
	}
	led := req.Scheduler == NearestDemand && entered(bids)
	list := sorted.Of(bids, beforeOf(led))
	for i := range min(maxRanked, len(bids)) {
		b := list.At(i)
		d.Ranked = append(d.Ranked, b.ranked())
		if len(req.Data) > 0 {
			d.Ranked[i].Parts["objects"] = float64(len(req.Data) - b.lacks)
		}
		if led {
			d.Ranked[i].Parts["entering"] = b.entering
		}
	}
	if led {
		d.Shares, d.Unplaced = lead(list, req.Count)
	} else {
		rest := shareOut(list, bids, &req)
		d.Shares, d.Unplaced = fill(list, req.Count-rest, rest)
	}
	d.Filtered = log.filters()
	if d.Unplaced > 0 {
		d.Reason = log.clusterReason(len(clusters), len(bids), req.Count-d.Unplaced)
	}
	return d
}

// fill returns what the bids take of what they share (even) and of the rest, in their order.
func fill(list *sorted.List[bid], even, rest int) (shares []ShareOut, unplaced int) {
	for i := 0; i < list.Len() && even+rest > 0; i++ {
		b := list.At(i)
		more := min(b.Expected-b.Even, rest)
		even, rest = even-b.Even, rest-more
		if n := b.Even + more; n > 0 {
			shares = append(shares, ShareOut{Cluster: b.id, Count: n})
		}
	}
	return shares, rest
}

// shareOut notes how many replicas each of the bids takes in turn, and returns how many are
// left: several clusters serve better, and tolerate failures better, than one.
func shareOut(list *sorted.List[bid], bids []bid, req *Request) (left int) {
	if left = req.Count; req.Spread != "soft" {
		return left
	}
	tiers := map[int][]*share.Taker{} // by what they lack
	for i := range bids {
		if b := &bids[i]; (b.reach.known || len(req.Latency) == 0) && b.reach.chance == keeps && !b.displaces {
			tiers[b.lacks] = append(tiers[b.lacks], &b.Taker)
		}
	}
	for _, lacks := range slices.Sorted(maps.Keys(tiers)) {
		left = share.Evenly(tiers[lacks], left, func(i int) *share.Taker { return &list.At(i).Taker })
	}
	return left
}

// Room returns how many replicas, at most req.Count, a cluster is expected to take, and
// if none, why in words, else "".
func Room(c ClusterView, req Request) (n int, why string) {
	req = cleanRequest(req)
	cleanCluster(&c, &req, false)
	b, r := offer(&c, &req)
	if r.filter == passed && b.Expected > 0 {
		return b.Expected, ""
	}
	if r.filter == passed {
		return 0, "has no room for another"
	}
	s := newFilterLog(true, &req)
	s.remove(r, c.ID)
	return 0, s.words(r.filter).one
}

// KmBetween returns the distance between the centres of two clusters; false if one of
// them does not tell its location.
func KmBetween(a, b wire.Aggregate) (km float64, known bool) {
	at := func(x *wire.Aggregate) *api.Point {
		if x.Site.Location != nil {
			return geo.CleanPoint(x.Site.Location)
		}
		if x.Disc != nil {
			return geo.CleanPoint(&x.Disc.Center)
		}
		return nil
	}
	p, q := at(&a), at(&b)
	if p == nil || q == nil {
		return 0, false
	}
	return geo.DistanceKm(*p, *q), true
}

// offer returns the bid of a cluster, or which filter removes it and why.
func offer(c *ClusterView, req *Request) (bid, removal) {
	a := &c.Aggregate
	switch {
	case !c.Connected:
		return bid{}, removal{filter: fConnected, note: "disconnected"}
	case a.V == 0 && a.Workers == 0 && a.Suspect == 0 && a.Cordoned == 0:
		return bid{}, removal{filter: fConnected, note: "has not reported yet"}
	case c.Cordoned:
		return bid{}, removal{filter: fCordoned}
	}
	if r := site(c, req); r.filter != passed {
		return bid{}, r
	}
	switch {
	case req.Runtime != "" && !slices.Contains(c.Runtimes, req.Runtime) && !slices.Contains(a.Runtimes, req.Runtime):
		return bid{}, removal{filter: fRuntime, has: union(c.Runtimes, a.Runtimes)}
	case lacksPlugin(a, req):
		return bid{}, removal{filter: fPlugin, has: a.Plugins}
	case a.Workers == 0:
		return bid{}, removal{filter: fWorkers, note: unready(a)}
	}
	workers, r := suited(c, req)
	if r.filter != passed {
		return bid{}, r
	}
	near, r := reaches(c, req)
	switch {
	case r.filter != passed:
		return bid{}, r
	case c.Refused != "":
		return bid{}, removal{filter: fRefused, note: c.Refused}
	}
	demand, pending := amount.ToVec(req.Demand), amount.ToVec(c.Pending)
	// A request for none is still ranked, by whether one would fit.
	e := estimate.Of(a, demand, pending, max(1, req.Count))
	if e.Short >= 0 && displaceable(a, demand, pending, req.Priority) {
		return bid{id: c.ID, Taker: share.Taker{Same: c.Same, Expected: min(1, req.Count)},
			freeShare: freeShare(c, demand, pending), displaces: true, reach: near}, removal{filter: passed}
	}
	if j := e.Short; j >= 0 {
		s := estimate.SpreadsOf(a)[j]
		r := removal{filter: fFirstResource + j, free: int64(s.Max)}
		if s.Max == 0 && s.Sum > 0 || s.Max >= float64(demand[j]) {
			// One would have fitted before the pending reservations, or the cluster
			// does not report its largest free amount.
			r.free, r.total = amount.SubInt(int64(s.Sum), pending[j]), true
		}
		return bid{}, r
	}
	expected := min(e.Expected, req.Count)
	if workers < a.Workers && expected > 1 {
		// The workers that satisfy the constraints may have the room: offer at least
		// one replica.
		part := partOf(a, workers)
		expected = min(expected, max(1, estimate.Of(&part, demand, pending, req.Count).Expected))
	}
	if excludesItself(req) {
		expected = min(expected, workers+a.Suspect-c.Same)
	}
	return bid{id: c.ID, Taker: share.Taker{Same: c.Same, Expected: expected}, freeShare: freeShare(c, demand, pending),
		reach: near}, removal{filter: passed}
}

// unready returns in words how many workers are not ready, "" for none.
func unready(a *wire.Aggregate) string {
	var all []string
	if a.Suspect > 0 {
		all = append(all, fmt.Sprintf("%d suspect", a.Suspect))
	}
	if a.Cordoned > 0 {
		all = append(all, fmt.Sprintf("%d cordoned", a.Cordoned))
	}
	return strings.Join(all, ", ")
}

// freeShare is the free share of the dominant resource: the one of which the demand
// takes the largest share of the cluster, as in dominant resource fairness. The
// largest free share of any resource would always be that of the disk, which is
// rarely full. Without a demand it is the smallest free share.
func freeShare(c *ClusterView, demand, pending amount.Vec) float64 {
	capacity := amount.ToVec(c.Aggregate.Capacity)
	share, dominant := 1.0, -1.0
	for j, s := range estimate.SpreadsOf(&c.Aggregate) {
		if capacity[j] <= 0 {
			continue
		}
		of := float64(capacity[j])
		free := min(1, max(0, s.Sum-float64(pending[j]))/of)
		if want := float64(demand[j]) / of; want > dominant || want == dominant && free < share {
			share, dominant = free, want
		}
	}
	return share
}
