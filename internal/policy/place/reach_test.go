package place

import (
	"fmt"
	"testing"

	// rapid: property tests that shrink a failure to its smallest case.
	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// sited is a cluster of workers at these places.
func sited(id string, at ...api.Point) ClusterView {
	var workers []WorkerView
	for i := range at {
		workers = append(workers, WorkerView{ID: fmt.Sprint(i), Runtimes: []string{"process"}, Arch: "amd64", Location: &at[i], Capacity: api.Resources{CPU: 4000, Memory: 4 * gi, Disk: 40 * gi}})
	}
	a := aggregateOf(workers)
	Describe(workers, &a)
	return ClusterView{ID: id, Connected: true, Aggregate: a}
}

var (
	berlin    = api.Point{52.52, 13.40}
	potsdam   = api.Point{52.40, 13.06}
	bavarian  = api.Point{48.14, 11.58}
	singapore = api.Point{1.35, 103.8}
)

func toPlace(p api.Point, max api.Duration, distance api.Distance) Threshold {
	return Threshold{To: fmt.Sprintf("%g,%g", p[0], p[1]), Max: max, Distance: distance, Targets: []Target{{ID: "place", Place: true, Location: &p}}}
}

func agreed(count int, t ...Threshold) Request {
	r := request(count)
	r.Latency = t
	return r
}

func TestClustersByWhatIsNear(t *testing.T) {
	nowhere := sited("nowhere", berlin)
	nowhere.Aggregate.Disc = nil
	quiet := cluster("quiet", 1, roomy) // says nothing of its workers
	all := []ClusterView{sited("asia", singapore), sited("bavaria", bavarian), sited("capital", berlin, potsdam), nowhere, quiet}
	in := func(c ClusterView) Target { return TargetIn(c.ID, c.Aggregate) }
	for name, c := range map[string]struct {
		req    Request
		want   string
		filter Filter
	}{
		"a place, distance": {
			agreed(1, toPlace(berlin, 0, 100_000)), "capital=1",
			Filter{"distance", 3, "asia: has no worker within 100km of 52.52,13.4: the nearest may be 9915 km away"},
		},
		"a place, round trip": {
			agreed(1, toPlace(berlin, ms(5), 0)), "capital=1",
			Filter{"latency", 3, "asia: has no worker within 5ms of 52.52,13.4: the nearest may be 9915 km away, at least 198.4ms"},
		},
		"a place, the nearest first": {agreed(1, toPlace(bavarian, ms(50), 0)), "bavaria=1", Filter{"latency", 2, "asia: has no worker within 50ms of 48.14,11.58: the nearest may be 10060 km away, at least 201.3ms"}},
		"shared by those near":       {agreed(4, toPlace(bavarian, ms(50), 0)), "bavaria=2 capital=2", Filter{}},
		"a service, its own cluster": {agreed(1, Threshold{To: "db", Max: ms(50), Targets: []Target{in(all[0])}}), "asia=1", Filter{"latency", 2, "bavaria: has no worker within 50ms of db: the nearest may be 10060 km away, at least 67.2ms"}},
		"a service, one of several":  {agreed(1, Threshold{To: "db", Distance: 100_000, Targets: []Target{in(all[0]), in(all[2])}}), "asia=1", Filter{"distance", 2, "bavaria: has no worker within 100km of db: the nearest may be 480 km away"}},
		"nothing known of it":        {agreed(1, Threshold{To: "shop.example", Max: ms(5), Unknown: "the clusters measure it"}), "asia=1", Filter{}},
		"no instance yet":            {agreed(1, Threshold{To: "db", Max: ms(5), Free: "no instance of db is placed"}), "asia=1", Filter{}},
	} {
		d := RankClusters(all, c.req)
		if shares(d) != c.want {
			t.Errorf("%s: %q, want %q: %s", name, shares(d), c.want, d.Reason)
		}
		if c.filter.Name != "" && (len(d.Filtered) == 0 || d.Filtered[0] != c.filter) {
			t.Errorf("%s: %+v, want %+v", name, d.Filtered, c.filter)
		}
	}
	d := RankClusters(all[:2], agreed(1, toPlace(berlin, 0, 100_000)))
	if want := "2 clusters: 2 have no worker within 100km of 52.52,13.4"; d.Reason != want {
		t.Errorf("%q, want %q", d.Reason, want)
	}
}

// Coordinates order clusters where they were measured from outside, and prove nothing.
func TestCoordinatesOrderClusters(t *testing.T) {
	at := func(id string, ms float64, outside int) ClusterView {
		c := cluster(id, 1, roomy)
		w := []WorkerView{{Coord: onLine(ms)}, {Coord: onLine(ms + 4)}}
		Describe(w, &c.Aggregate)
		c.Aggregate.Around.Outside = outside
		return c
	}
	db := at("db", 0, 1)
	if a := db.Aggregate.Around; a.Radius != ms(2) || a.Workers != 2 || a.Center.Vec[0] != 0.002 {
		t.Errorf("%+v", a)
	}
	th := Threshold{To: "db", Max: ms(15), Targets: []Target{TargetIn("db", db.Aggregate)}}
	all := []ClusterView{at("far", 100, 1), at("near", 10, 1), at("nearer", 6, 1), at("untold", 0, 0)}
	d := RankClusters(all, agreed(1, th))
	order := ""
	for _, r := range d.Ranked {
		order += r.ID + " "
	}
	if order != "nearer near untold far " || d.Ranked[0].Parts["latency_ms"] != 6 {
		t.Errorf("%s: %+v", order, d.Ranked)
	}
	if again, err := Replay(d); err != nil || shares(again) != shares(d) {
		t.Errorf("replayed %q: %v", shares(again), err)
	}
}

// A cluster is left out only where none of its workers keeps the agreement by what the
// cluster itself would say.
func TestNoClusterIsLeftOutThatKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		point := func(name string) api.Point {
			return api.Point{rapid.Float64Range(-90, 90).Draw(t, name+" lat"), rapid.Float64Range(-180, 180).Draw(t, name+" lon")}
		}
		var workers []WorkerView
		center, wide := point("centre"), rapid.Float64Range(0, 30).Draw(t, "wide")
		for i := range rapid.IntRange(1, 8).Draw(t, "workers") {
			w := WorkerView{ID: fmt.Sprint(i), Arch: "amd64", Runtimes: []string{"process"}, Capacity: roomy}
			if rapid.IntRange(0, 4).Draw(t, "knows") > 0 {
				p := api.Point{min(90, max(-90, center[0]+rapid.Float64Range(-wide, wide).Draw(t, "lat"))), center[1]}
				w.Location = &p
			}
			if rapid.Bool().Draw(t, "measured") {
				w.Coord = &wire.Coordinate{Height: rapid.Float64Range(0, 0.01).Draw(t, "height"), Error: 0.2}
			}
			workers = append(workers, w)
		}
		a := aggregateOf(workers)
		Describe(workers, &a)
		th := toPlace(point("target"), api.Duration(rapid.Int64Range(0, 3e8).Draw(t, "max")), api.Distance(rapid.IntRange(0, 15_000_000).Draw(t, "distance")))
		if th.Max == 0 && th.Distance == 0 {
			th.Max = 1
		}
		d := RankClusters([]ClusterView{{ID: "c", Connected: true, Aggregate: a}}, agreed(1, th))
		for _, w := range workers {
			if rtt, km, kept := Keeps(w, th); kept && len(d.Shares) == 0 {
				t.Fatalf("worker %s keeps it (%s, %g km), and its cluster is left out: %s", w.ID, rtt, km, d.Reason)
			}
		}
	})
}
