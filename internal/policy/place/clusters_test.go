package place

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/wire"
)

// cluster has n equal workers with free of 4 cores, 4Gi, 40Gi each.
func cluster(id string, n int, free api.Resources, change ...func(*ClusterView)) ClusterView {
	workers := make([]WorkerView, n)
	full := api.Resources{CPU: 4000, Memory: 4 * gi, Disk: 40 * gi}
	for i := range workers {
		workers[i] = WorkerView{ID: fmt.Sprint(i), Capacity: full, Used: amount.Sub(full, free)}
	}
	c := ClusterView{ID: id, Connected: true, Runtimes: []string{"process"}, Aggregate: aggregateOf(workers)}
	for _, f := range change {
		f(&c)
	}
	return c
}

func area(a ...string) func(*ClusterView) { return func(c *ClusterView) { c.Areas = a } }
func same(n int) func(*ClusterView)       { return func(c *ClusterView) { c.Same = n } }
func pending(r api.Resources) func(*ClusterView) {
	return func(c *ClusterView) { c.Pending = r }
}

var roomy = api.Resources{CPU: 2000, Memory: 2 * gi, Disk: 20 * gi}

func request(count int) Request {
	return Request{
		Instance: "shop.web", Count: count, Runtime: "process", Spread: "soft", Scheduler: "rom",
		Demand: api.Resources{CPU: 100, Memory: 512 * mi, Disk: 100 * mi},
	}
}

func shares(d Decision) string {
	var b strings.Builder
	for _, s := range d.Shares {
		fmt.Fprintf(&b, "%s=%d ", s.Cluster, s.Count)
	}
	return strings.TrimSpace(b.String())
}

func TestRankClusters(t *testing.T) {
	// Room for replicas of 512Mi: roomy 4 a worker.
	for name, c := range map[string]struct {
		clusters []ClusterView
		count    int
		want     string
		unplaced int
	}{
		"the first that can takes all": {[]ClusterView{cluster("b", 2, roomy), cluster("a", 2, roomy)}, 8, "a=8", 0},
		"expected to take more first":  {[]ClusterView{cluster("a", 1, roomy), cluster("b", 2, roomy)}, 8, "b=8", 0},
		"no more than wanted counts":   {[]ClusterView{cluster("a", 1, roomy), cluster("b", 9, roomy)}, 4, "a=4", 0},
		"then the next":                {[]ClusterView{cluster("a", 1, roomy), cluster("b", 2, roomy)}, 10, "b=8 a=2", 0},
		"the rest is unplaced":         {[]ClusterView{cluster("a", 1, roomy), cluster("b", 2, roomy)}, 15, "b=8 a=4", 3},
		"fewer of the same first":      {[]ClusterView{cluster("a", 2, roomy, same(2)), cluster("b", 2, roomy, same(1))}, 3, "b=3", 0},
		"larger free share first":      {[]ClusterView{cluster("a", 2, roomy), cluster("b", 2, api.Resources{CPU: 2000, Memory: 3 * gi, Disk: gi})}, 3, "b=3", 0},
		"what is under way counts": {[]ClusterView{
			cluster("a", 2, roomy, pending(api.Resources{CPU: 700, Memory: 7 * 512 * mi})), cluster("b", 1, roomy),
		}, 5, "b=4 a=1", 0},
		"pending of others' cpu is no memory": {[]ClusterView{cluster("a", 2, roomy, pending(api.Resources{CPU: 3000}))}, 8, "a=8", 0},
		"deep workers with much pending":      {[]ClusterView{cluster("a", 2, roomy, pending(api.Resources{Memory: 2 * 512 * mi}))}, 2, "a=2", 0},
		"none wanted":                         {[]ClusterView{cluster("a", 2, roomy)}, 0, "", 0},
		"negative count":                      {[]ClusterView{cluster("a", 2, roomy)}, -3, "", 0},
	} {
		req := request(c.count)
		req.Spread = "none"
		d := RankClusters(c.clusters, req)
		if shares(d) != c.want || d.Unplaced != c.unplaced {
			t.Errorf("%s: %q and %d unplaced, want %q and %d", name, shares(d), d.Unplaced, c.want, c.unplaced)
		}
		if (d.Unplaced > 0) != (d.Reason != "") {
			t.Errorf("%s: %d unplaced, reason %q", name, d.Unplaced, d.Reason)
		}
	}
}

// Clusters that lack fewer of the objects come first, whatever room they have; those that
// lack as many share the replicas.
func TestObjectsDecideBetweenClusters(t *testing.T) {
	lacks := func(n int) func(*ClusterView) { return func(c *ClusterView) { c.Lacks = n } }
	clusters := []ClusterView{cluster("a", 9, roomy, lacks(2)), cluster("b", 9, roomy, lacks(2)), cluster("c", 1, roomy, lacks(1)), cluster("d", 1, roomy, lacks(1))}
	req := request(4)
	req.Data = []string{"cats", "dogs"}
	for spread, want := range map[string]string{"soft": "c=2 d=2", "none": "c=4"} {
		req.Spread = spread
		if d := RankClusters(clusters, req); shares(d) != want || d.Ranked[0].Parts["objects"] != 1 || d.Ranked[3].Parts["objects"] != 0 {
			t.Errorf("%s: %q, want %q: %+v", spread, shares(d), want, d.Ranked)
		}
	}
	req.Spread, req.Count = "soft", 14
	if d := RankClusters(clusters, req); shares(d) != "c=4 d=4 a=3 b=3" || d.Unplaced != 0 {
		t.Errorf("what they have no room for: %q", shares(d))
	}
	req.Data = nil
	if d := RankClusters(clusters, req); strings.HasPrefix(shares(d), "c") || d.Ranked[0].Parts["objects"] != 0 {
		t.Errorf("nothing is read: %q %+v", shares(d), d.Ranked)
	}
	// Who is proven to be too far gets none, whatever objects it has.
	req.Data = []string{"cats", "dogs"}
	clusters[2].Aggregate.Disc, clusters[2].Aggregate.Architectures = &wire.Disc{Center: api.Point{52, 13}, RadiusKm: 1, Workers: 1}, map[string]int{"amd64": 1}
	req.Latency = []Threshold{{To: "48,11", Distance: 1000, Targets: []Target{{ID: "48,11", Place: true, Location: &api.Point{48, 11}}}}}
	if d := RankClusters(clusters, req); strings.Contains(shares(d), "c=") {
		t.Errorf("it is too far: %q", shares(d))
	}
}

func TestRankClustersFiltersAndReasons(t *testing.T) {
	small := api.Resources{CPU: 2000, Memory: 380 * mi, Disk: 20 * gi}
	north := request(2)
	north.Affinity.Area = []string{"north"}
	fog := request(1)
	fog.Affinity.Cluster = []string{"fog"}
	wasm := request(1)
	wasm.Runtime = "wasm"
	for name, c := range map[string]struct {
		clusters []ClusterView
		req      Request
		filter   string
		example  string
		reason   string
	}{
		"nobody": {nil, request(1), "", "", "no cluster has joined yet"},
		"area and full": {
			[]ClusterView{cluster("edge", 2, small, area("north")), cluster("fog", 2, roomy, area("south"))}, north,
			"affinity.area", "fog: lacks area north (has south)",
			"2 clusters: 1 lacks area north (has south), 1 is full: needs 512Mi memory, largest free 380Mi",
		},
		"two areas": {
			[]ClusterView{cluster("edge", 2, roomy), cluster("fog", 2, roomy, area("south"))}, north,
			"affinity.area", "edge: lacks area north (has none)", "2 clusters: 2 lack area north",
		},
		"largest of the full": {
			[]ClusterView{cluster("a", 2, api.Resources{}), cluster("b", 2, small)}, request(1),
			"memory", "b: needs 512Mi memory, largest free 380Mi",
			"2 clusters: 1 is full: needs 100m cpu, largest free 0, 1 is full: needs 512Mi memory, largest free 380Mi",
		},
		"disconnected": {
			[]ClusterView{cluster("a", 2, roomy, func(c *ClusterView) { c.Connected = false })}, request(1),
			"connected", "a: disconnected", "1 cluster: 1 is disconnected",
		},
		"never heard of": {
			[]ClusterView{{ID: "a", Connected: true}}, request(1),
			"connected", "a: has not reported yet", "1 cluster: 1 has not reported yet",
		},
		"cluster affinity": {
			[]ClusterView{cluster("a", 2, roomy), cluster("b", 2, roomy)}, fog,
			"affinity.cluster", "a: is not fog", "cluster fog does not exist",
		},
		"runtime": {
			[]ClusterView{cluster("a", 2, roomy)}, wasm,
			"runtime", "a: lacks runtime wasm (has process)", "1 cluster: 1 lacks runtime wasm (has process)",
		},
		"no workers": {
			[]ClusterView{cluster("a", 0, roomy, func(c *ClusterView) { c.Aggregate.Suspect = 3 })}, request(1),
			"workers", "a: has no ready worker (3 suspect)", "1 cluster: 1 has no ready worker (3 suspect)",
		},
		"refused": {
			[]ClusterView{cluster("a", 2, roomy, func(c *ClusterView) { c.Refused = "no worker fits" })}, request(1),
			"refused", "a: refused lately: no worker fits", "1 cluster: 1 refused lately (no worker fits)",
		},
		"all given away": {
			[]ClusterView{cluster("a", 1, roomy, pending(api.Resources{Memory: 1800 * mi}))}, request(1),
			"memory", "a: needs 512Mi memory, 248Mi left in all workers together",
			"1 cluster: 1 is full: needs 512Mi memory, 248Mi left in all workers together",
		},
		"some placed": {
			[]ClusterView{cluster("a", 1, roomy), cluster("b", 1, small)}, request(6),
			"memory", "b: needs 512Mi memory, largest free 380Mi",
			"2 clusters: 1 is full: needs 512Mi memory, largest free 380Mi, 1 has room for 4 of 6",
		},
	} {
		d := RankClusters(c.clusters, c.req)
		if d.Reason != c.reason {
			t.Errorf("%s: reason\n%q, want\n%q", name, d.Reason, c.reason)
		}
		if d.Candidates != len(c.clusters) {
			t.Errorf("%s: %d candidates", name, d.Candidates)
		}
		if c.filter == "" {
			continue
		}
		found := false
		for _, f := range d.Filtered {
			if f.Name == c.filter {
				found = true
				if f.Example != c.example {
					t.Errorf("%s: example %q, want %q", name, f.Example, c.example)
				}
			}
		}
		if !found {
			t.Errorf("%s: filter %s removed nothing: %v", name, c.filter, d.Filtered)
		}
	}
}

// With spread soft several clusters share what there is, evenly with what they have.
func TestClustersShareReplicas(t *testing.T) {
	for name, c := range map[string]struct {
		clusters []ClusterView
		count    int
		want     string
		unplaced int
	}{
		"evenly":                   {[]ClusterView{cluster("a", 2, roomy), cluster("b", 9, roomy)}, 4, "a=2 b=2", 0},
		"more where there is more": {[]ClusterView{cluster("a", 1, roomy), cluster("b", 9, roomy)}, 10, "b=6 a=4", 0},
		"those with fewer first":   {[]ClusterView{cluster("a", 2, roomy, same(2)), cluster("b", 2, roomy)}, 4, "b=3 a=1", 0},
		"what they have counts":    {[]ClusterView{cluster("a", 2, roomy, same(3)), cluster("b", 2, roomy)}, 2, "b=2", 0},
		"one":                      {[]ClusterView{cluster("a", 1, roomy), cluster("b", 2, roomy)}, 1, "a=1", 0},
		"more than all":            {[]ClusterView{cluster("a", 1, roomy), cluster("b", 2, roomy)}, 15, "b=8 a=4", 3},
	} {
		if d := RankClusters(c.clusters, request(c.count)); shares(d) != c.want || d.Unplaced != c.unplaced {
			t.Errorf("%s: %q and %d unplaced, want %q and %d", name, shares(d), d.Unplaced, c.want, c.unplaced)
		}
	}
}

// Areas and runtimes may be known from the registration or from the report.
func TestRankClustersTakesEitherSource(t *testing.T) {
	c := cluster("a", 1, roomy)
	c.Runtimes, c.Aggregate.Areas = nil, []string{"north"}
	req := request(1)
	req.Affinity.Area = []string{"south", "north"}
	if d := RankClusters([]ClusterView{c}, req); shares(d) != "a=1" {
		t.Errorf("%q: %s", shares(d), d.Reason)
	}
}

func TestRankedIsBounded(t *testing.T) {
	var cs []ClusterView
	for i := range 300 {
		cs = append(cs, cluster(fmt.Sprintf("c%03d", i), 1, roomy))
	}
	req := request(9)
	req.Spread = "none"
	d := RankClusters(cs, req)
	if len(d.Ranked) != maxRanked || shares(d) != "c000=4 c001=4 c002=1" {
		t.Errorf("%d ranked, %q", len(d.Ranked), shares(d))
	}
	if d.InputsOmitted != 300 || d.Clusters != nil {
		t.Errorf("%d inputs in the record, %d omitted", len(d.Clusters), d.InputsOmitted)
	}
	if _, err := Replay(d); err == nil || !strings.Contains(err.Error(), "300 inputs") {
		t.Errorf("replay without inputs: %v", err)
	}
	want := map[string]float64{"expected": 4, "same": 0, "free_share": 0.5}
	if r := d.Ranked[0]; r.Score != 4 || !reflect.DeepEqual(r.Parts, want) {
		t.Errorf("best is %+v, want parts %v", r, want)
	}
}

// The record is the decider's own: later changes of the inputs do not reach it.
func TestRecordIsACopy(t *testing.T) {
	c := cluster("a", 1, roomy, area("north"))
	req := request(1)
	req.Affinity.Area = []string{"north"}
	d := RankClusters([]ClusterView{c}, req)
	c.Areas[0], c.Runtimes[0], req.Affinity.Area[0] = "x", "x", "x"
	c.Aggregate.Runtimes[0] = "x"
	if again, err := Replay(d); err != nil || shares(again) != "a=1" {
		t.Errorf("replayed %q, %v", shares(again), err)
	}
}

func BenchmarkRankClusters1000(b *testing.B) {
	var cs []ClusterView
	for i := range 1000 {
		cs = append(cs, cluster(fmt.Sprintf("c%d", i), 10, roomy))
	}
	b.ReportAllocs()
	for b.Loop() {
		if d := RankClusters(cs, request(100)); len(d.Shares) == 0 {
			b.Fatal(d.Reason)
		}
	}
}

// BenchmarkRankClusters1000Few ranks clusters of which no two are alike, for a few replicas.
func BenchmarkRankClusters1000Few(b *testing.B) {
	var cs []ClusterView
	for i := range 1000 {
		free := roomy
		free.CPU += api.CPU(i * 7919 % 1999)
		cs = append(cs, cluster(fmt.Sprintf("c%04d", i), 100, free))
	}
	for _, spread := range []string{"none", "soft"} {
		b.Run(spread, func(b *testing.B) {
			req := request(5)
			req.Spread = spread
			b.ReportAllocs()
			for b.Loop() {
				if d := RankClusters(cs, req); len(d.Shares) == 0 {
					b.Fatal(d.Reason)
				}
			}
		})
	}
}
