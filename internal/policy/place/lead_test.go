package place

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/internal/wire"
)

func TestReplicasGoToTheClustersOfTheirRequests(t *testing.T) {
	var views []ClusterView
	for n, rate := range []float64{0, 10, 30} {
		v := cluster(fmt.Sprintf("c%d", n), 9, roomy)
		v.Entering = rate
		views = append(views, v)
	}
	req := request(4)
	req.Scheduler = NearestDemand
	d := RankClusters(views, req)
	got := map[string]int{}
	for _, s := range d.Shares {
		got[s.Cluster] = s.Count
	}
	if got["c2"] != 3 || got["c1"] != 1 || d.Unplaced != 0 || d.Ranked[0].ID != "c2" || d.Ranked[0].Parts["entering"] != 30 {
		t.Errorf("%v of %+v", got, d.Ranked)
	}
	// Another scheduler does not look at it, nor this one where nothing enters.
	req.Scheduler = ROM
	plain := RankClusters(views, req)
	for i := range views {
		views[i].Entering = 0
	}
	req.Scheduler = NearestDemand
	if none := RankClusters(views, req); fmt.Sprint(none.Shares) != fmt.Sprint(plain.Shares) {
		t.Errorf("%v, rom %v", none.Shares, plain.Shares)
	}
}

// Where most requests enter is too far by coordinates from what must be near: it gets what
// the others have no room for, and nothing is moved there.
func TestReplicasDoNotFollowAwayFromTheirAgreement(t *testing.T) {
	var views []ClusterView
	for n, at := range []float64{20, 30, 400} {
		v := cluster(fmt.Sprintf("c%d", n), 9, roomy)
		v.Entering = []float64{1, 5, 100}[n]
		v.Aggregate.Around = &wire.Around{Center: *onLine(at), Radius: ms(5), Workers: 9, Outside: 9}
		views = append(views, v)
	}
	req := request(4)
	req.Scheduler = NearestDemand
	req = nearestAt(req)
	d := RankClusters(views, req)
	if got := fmt.Sprint(d.Shares); got != "[{c0 1} {c1 3}]" && got != "[{c1 4}]" && got != "[{c1 3} {c0 1}]" || d.Ranked[2].ID != "c2" {
		t.Errorf("%v of %+v", d.Shares, d.Ranked)
	}
	for i, want := range []bool{false, false, true} {
		if Unlikely(views[i], req) != want {
			t.Errorf("%s: unlikely %t", views[i].ID, !want)
		}
	}
	req.Latency = nil
	if d = RankClusters(views, req); d.Ranked[0].ID != "c2" || Unlikely(views[2], req) {
		t.Errorf("without an agreement: %v of %+v", d.Shares, d.Ranked)
	}
	few := 0
	for _, s := range RankClusters(views[2:], nearestAt(req)).Shares {
		few += s.Count
	}
	if few != 4 {
		t.Errorf("%d of 4 where there is nothing else", few)
	}
}

// nearestAt asks for what is too far for most.
func nearestAt(req Request) Request {
	req.Latency = []Threshold{{To: "db", Max: ms(50), Targets: []Target{{ID: "x", Cluster: "other", Coord: onLine(10), Radius: ms(5)}}}}
	return req
}

// Moving ends, never overfills anybody, and each move makes the smallest part larger.
func TestLeadSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := make([]Leading, rapid.IntRange(1, 6).Draw(t, "clusters"))
		room, all := make([]int, len(list)), 0
		for i := range list {
			list[i] = Leading{Cluster: fmt.Sprint(i), Replicas: rapid.IntRange(0, 5).Draw(t, "replicas"), Entering: rapid.Float64Range(0, 100).Draw(t, "entering")}
			room[i] = list[i].Replicas + rapid.IntRange(0, 4).Draw(t, "room")
			all += list[i].Replicas
		}
		last := ""
		for moves := 0; ; moves++ {
			for i := range list {
				list[i].Room = list[i].Replicas < room[i]
			}
			from, to, ok := Lead(list)
			if !ok {
				break
			}
			if moves > 2*all || to+">"+from == last {
				t.Fatalf("%d moves, the last from %s to %s: %+v", moves, from, to, list)
			}
			last = from + ">" + to
			for i := range list {
				switch list[i].Cluster {
				case from:
					list[i].Replicas--
				case to:
					list[i].Replicas++
				}
				if list[i].Replicas < 0 || list[i].Replicas > room[i] {
					t.Fatalf("%+v", list)
				}
			}
		}
	})
}
