package place

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
)

// plainly is RankClusters as its comment has it: all bids are sorted, and shared among one
// after the other.
func plainly(clusters []ClusterView, req Request) (shares []ShareOut, unplaced int, best []string) {
	req = cleanRequest(req)
	var bids []bid
	for _, c := range clusters {
		cleanCluster(&c, &req, true)
		if b, r := offer(&c, &req); r.filter == passed {
			if len(req.Data) > 0 {
				b.lacks = c.Lacks
			}
			bids = append(bids, b)
		}
	}
	slices.SortFunc(bids, func(a, b bid) int {
		return cmp.Or(
			cmp.Compare(count(a.displaces), count(b.displaces)),
			a.reach.compare(b.reach),
			cmp.Compare(a.lacks, b.lacks),
			cmp.Compare(b.Expected, a.Expected),
			cmp.Compare(a.Same, b.Same),
			cmp.Compare(b.freeShare, a.freeShare),
			cmp.Compare(a.id, b.id),
		)
	})
	even := make([]int, len(bids))
	tiers := map[int][]int{}
	for i, b := range bids {
		if req.Spread == "soft" && (b.reach.known || len(req.Latency) == 0) && b.reach.chance == keeps && !b.displaces {
			tiers[b.lacks] = append(tiers[b.lacks], i)
		}
	}
	left := req.Count
	for _, lacks := range slices.Sorted(maps.Keys(tiers)) {
		for fit := tiers[lacks]; left > 0; {
			fit = slices.DeleteFunc(fit, func(i int) bool { return even[i] >= bids[i].Expected })
			if len(fit) == 0 {
				break
			}
			has := func(i int) int { return bids[i].Same + even[i] }
			least := has(slices.MinFunc(fit, func(i, j int) int { return cmp.Compare(has(i), has(j)) }))
			for _, i := range fit {
				if has(i) == least && left > 0 {
					even[i]++
					left--
				}
			}
		}
	}
	for i, b := range bids {
		if i < maxRanked {
			best = append(best, b.id)
		}
		if n := even[i] + min(b.Expected-even[i], left); n > 0 {
			shares = append(shares, ShareOut{Cluster: b.id, Count: n})
			left -= n - even[i]
		}
	}
	return shares, left, best
}

// Sorting no more than is needed changes no decision.
func TestRankClustersIsPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := genRequest(t)
		if req.Scheduler == NearestDemand {
			req.Scheduler = ROM
		}
		clusters := genClusters(t)
		if rapid.Bool().Draw(t, "many alike") {
			clusters = nil
			few := rapid.IntRange(0, 3)
			for i := range rapid.IntRange(0, 60).Draw(t, "clusters") {
				free := roomy
				free.CPU -= api.CPU(few.Draw(t, "cpu")) * 500
				clusters = append(clusters, cluster(fmt.Sprintf("c%02d", i), 1+few.Draw(t, "workers"), free, same(few.Draw(t, "same")), func(c *ClusterView) { c.Lacks = few.Draw(t, "lacks") }))
			}
			req = request(rapid.IntRange(0, 300).Draw(t, "count"))
			req.Spread = rapid.SampledFrom([]string{"soft", "none"}).Draw(t, "spread")
			req.Data = rapid.SliceOfN(rapid.SampledFrom([]string{"cats", "dogs"}), 0, 2).Draw(t, "data")
		}
		shares, unplaced, best := plainly(clusters, req)
		d := RankClusters(clusters, req)
		var got []string
		for _, r := range d.Ranked {
			got = append(got, r.ID)
		}
		if !reflect.DeepEqual(d.Shares, shares) || d.Unplaced != unplaced || !reflect.DeepEqual(got, best) {
			t.Fatalf("%v and %d unplaced, best %v\nplainly %v and %d, %v", d.Shares, d.Unplaced, got, shares, unplaced, best)
		}
	})
}
