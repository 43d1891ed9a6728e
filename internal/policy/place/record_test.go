package place

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/place/waste"
	"github.com/verge-edge/verge/internal/wire"
)

// Generators of inputs as they should be, with a share of what never should.

var names = []string{"north", "south", "east"}
var runtimes = []string{"process", "wasm"}

func genResources(t *rapid.T, label string) api.Resources {
	amount := rapid.OneOf(rapid.Int64Range(0, 10), rapid.Int64Range(0, 1<<18), rapid.Int64Range(-5, 0))
	r := api.Resources{
		CPU:    api.CPU(amount.Draw(t, label+" cpu")),
		Memory: api.Bytes(amount.Draw(t, label+" memory")),
		Disk:   api.Bytes(amount.Draw(t, label+" disk")),
	}
	if rapid.IntRange(0, 3).Draw(t, label+" others") == 0 {
		r.VGPUs = api.Units(rapid.SampledFrom([]int{-1, 500, 1000, 2000}).Draw(t, label+" gpus"))
		r.VTPUs = api.Units(rapid.SampledFrom([]int{0, 1000}).Draw(t, label+" tpus"))
		r.Bandwidth.Out = api.Bitrate(amount.Draw(t, label+" bandwidth"))
	}
	return r
}

func genList(t *rapid.T, label string, of []string) []string {
	return rapid.SliceOfN(rapid.SampledFrom(of), 0, 2).Draw(t, label)
}

func genWorkers(t *rapid.T) []WorkerView {
	out := make([]WorkerView, rapid.IntRange(0, 12).Draw(t, "workers"))
	for i := range out {
		out[i] = WorkerView{
			ID: fmt.Sprintf("w%d", i), Runtimes: genList(t, "runtimes", runtimes),
			Capacity: genResources(t, "capacity"), Used: genResources(t, "used"),
			Suspect: rapid.IntRange(0, 5).Draw(t, "suspect") == 0, Same: rapid.IntRange(-1, 3).Draw(t, "same"),
			Cordoned: rapid.IntRange(0, 7).Draw(t, "cordoned") == 0, Arch: rapid.SampledFrom(archs).Draw(t, "arch"),
			Labels: genLabels(t, 3), Location: genPoint(t),
			HostPaths: rapid.SliceOfN(rapid.SampledFrom([]string{"/srv", "/srv/media/"}), 0, 1).Draw(t, "host paths"),
		}
		if rapid.IntRange(0, 3).Draw(t, "host users") > 0 {
			out[i].HostUsers = []string{"root", "www-data"}
		}
		if rapid.Bool().Draw(t, "knows where") {
			out[i].Coord = onLine(rapid.Float64Range(-50, 50).Draw(t, "at"))
		}
		if rapid.IntRange(0, 2).Draw(t, "equipped") == 0 {
			out[i].Devices = drawDevices(t)
		}
		if rapid.IntRange(0, 7).Draw(t, "conflict") == 0 {
			out[i].Conflicts = []string{"db"}
		}
	}
	return out
}

var archs = []string{"amd64", "arm64"}

func genLabels(t *rapid.T, most int) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom([]string{"disk", "zone", "gpu"}), rapid.SampledFrom([]string{"a", "b"}), 0, most).Draw(t, "labels")
}

// genPoint is near Munich, nowhere, or impossible.
func genPoint(t *rapid.T) *api.Point {
	switch rapid.IntRange(0, 5).Draw(t, "where") {
	case 0:
		return nil
	case 1:
		return &api.Point{math.NaN(), rapid.Float64Range(-1e9, 1e9).Draw(t, "longitude")}
	}
	return &api.Point{rapid.Float64Range(47.5, 48.5).Draw(t, "latitude"), rapid.Float64Range(11, 12).Draw(t, "longitude")}
}

// genConstraints adds what a request may ask beyond names and amounts.
func genConstraints(t *rapid.T, r *Request) {
	some := func(what string) bool { return rapid.IntRange(0, 3).Draw(t, what) == 0 }
	if some("architecture") {
		r.Architecture = rapid.SliceOfN(rapid.SampledFrom(archs), 1, 2).Draw(t, "architectures")
	}
	if some("labels") {
		r.Affinity.Labels = genLabels(t, 2)
	}
	if some("no labels") {
		r.AntiAffinity.Labels = genLabels(t, 1)
	}
	if some("location") {
		p := api.Point{48.14, 11.58}
		r.Location = &api.Location{Latitude: p[0], Longitude: p[1], Radius: api.Distance(rapid.IntRange(-1, 60_000).Draw(t, "radius"))}
	}
	if some("polygon") {
		r.Affinity.Polygon = []api.Point{{47.8, 11.2}, {48.3, 11.4}, {48.1, 11.9}}
	}
	if some("volumes") {
		r.HostPaths = []string{rapid.SampledFrom([]string{"/srv/media", "/srv/media/a", "/etc"}).Draw(t, "path")}
	}
	if some("host user") {
		r.HostUser = rapid.SampledFrom([]string{"root", "web"}).Draw(t, "user")
	}
	if some("areas") {
		r.AntiAffinity.Area = genList(t, "no area", names)
	}
	if some("clusters") {
		r.AntiAffinity.Cluster = []string{"c0"}
	}
	if some("devices") {
		r.Devices = []api.DeviceNeed{{Type: rapid.SampledFrom([]string{"gpu", "camera"}).Draw(t, "device"), Count: rapid.IntRange(-1, 2).Draw(t, "how many"), Model: genList(t, "model", []string{"a10", "t4"})}}
	}
	if some("pin") {
		r.Pinned = rapid.SampledFrom([]string{"w0", "w9"}).Draw(t, "pinned")
	}
	if some("alone") {
		_, service, _ := strings.Cut(r.Instance, ".")
		r.AntiAffinity.Service = []string{service}
	}
}

func genClusters(t *rapid.T) []ClusterView {
	bad := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, math.MaxFloat64})
	out := make([]ClusterView, rapid.IntRange(0, 8).Draw(t, "clusters"))
	for i := range out {
		c := ClusterView{
			ID: fmt.Sprintf("c%d", i), Connected: rapid.IntRange(0, 5).Draw(t, "connected") > 0,
			Areas: genList(t, "areas", names), Runtimes: genList(t, "runtimes", runtimes),
			Aggregate: aggregateOf(genWorkers(t)), Pending: genResources(t, "pending"),
			Same: rapid.IntRange(-1, 3).Draw(t, "same"), Lacks: rapid.IntRange(-1, 3).Draw(t, "lacks"),
		}
		if rapid.IntRange(0, 9).Draw(t, "refused") == 0 {
			c.Refused = "no worker fits"
		}
		if rapid.IntRange(0, 9).Draw(t, "spoilt") == 0 {
			c.Aggregate.CPU.Dev = bad.Draw(t, "dev")
			c.Aggregate.Memory.Sum = bad.Draw(t, "sum")
			c.Aggregate.Disk.Max = bad.Draw(t, "max")
			c.Aggregate.Workers -= 3
		}
		out[i] = c
	}
	return out
}

func genRequest(t *rapid.T) Request {
	r := Request{
		Instance: rapid.StringMatching(`[a-z]{1,3}\.[a-z]{1,3}`).Draw(t, "instance"),
		Count:    rapid.IntRange(-1, 40).Draw(t, "count"),
		Runtime:  rapid.SampledFrom([]string{"process", "wasm", ""}).Draw(t, "runtime"),
		Demand:   genResources(t, "demand"),
		Affinity: api.Affinity{
			Cluster: rapid.SliceOfN(rapid.SampledFrom([]string{"c0", "c1", "c9"}), 0, 1).Draw(t, "cluster"),
			Area:    genList(t, "area", names),
		},
		Spread: rapid.SampledFrom([]string{"soft", "none", ""}).Draw(t, "spread"),
		Avoid:  rapid.SliceOfN(rapid.SampledFrom([]string{"w0", "w1", "w9"}), 0, 2).Draw(t, "avoid"),
	}
	genConstraints(t, &r)
	for range rapid.IntRange(-2, 3).Draw(t, "usual") {
		d := genResources(t, "usual demand")
		r.Usual = append(r.Usual, waste.Kind{CPU: d.CPU, Memory: d.Memory, Count: rapid.IntRange(-1, 9).Draw(t, "usual count")})
	}
	r.Data = rapid.SliceOfN(rapid.SampledFrom([]string{"cats", "dogs"}), 0, 2).Draw(t, "data")
	if rapid.IntRange(0, 3).Draw(t, "near") == 0 {
		r.Scheduler = rapid.SampledFrom([]string{"rom", LDP}).Draw(t, "scheduler")
		r.Latency = []Threshold{{To: "web", Max: ms(40), Targets: []Target{{ID: "x", Worker: "w1", Coord: onLine(0), Direct: map[string]api.Duration{"w2": ms(10)}}}}}
	}
	if rapid.IntRange(0, 3).Draw(t, "wish") == 0 {
		r.Latency = append(r.Latency, Threshold{To: "data", Wish: true, Targets: []Target{{ID: "data", Coord: onLine(20), Direct: map[string]api.Duration{"w2": ms(10)}}}})
	}
	return r
}

// checkRecord holds what every decision promises whatever its kind.
func checkRecord(t *rapid.T, d, shuffled Decision) {
	if !reflect.DeepEqual(d, shuffled) {
		t.Fatalf("the order of inputs matters:\n%+v\n%+v", d, shuffled)
	}
	again, err := Replay(d)
	if err != nil || !reflect.DeepEqual(again, d) {
		t.Fatalf("replay: %v\n%+v\n%+v", err, again, d)
	}
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatalf("a record must be writable: %v", err)
	}
	var stored Decision
	if err := json.Unmarshal(b, &stored); err != nil {
		t.Fatalf("a record must be readable: %v", err)
	}
	stored.TookNs = 12345
	if again, err = Replay(stored); err != nil || !reflect.DeepEqual(again, d) {
		t.Fatalf("replay of the stored record: %v\n%+v\n%+v", err, again, d)
	}
	removed := 0
	for _, f := range d.Filtered {
		if f.Removed <= 0 || f.Name == "" || f.Example == "" {
			t.Fatalf("filter %+v", f)
		}
		removed += f.Removed
	}
	if len(d.Ranked) != min(maxRanked, d.Candidates-removed) {
		t.Fatalf("%d candidates, %d removed, %d ranked", d.Candidates, removed, len(d.Ranked))
	}
}

func TestScheduleProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers, req := genWorkers(t), genRequest(t)
		d := Schedule(workers, req)
		checkRecord(t, d, Schedule(rapid.Permutation(workers).Draw(t, "order"), req))
		feasible := func(w WorkerView) bool {
			free := amount.Sub(w.Capacity, w.Used)
			ok, _ := amount.Fits(free, amount.Clean(req.Demand))
			ok = ok && !w.Suspect && !w.Cordoned && !slices.Contains(req.Avoid, w.ID) && (req.Runtime == "" || slices.Contains(w.Runtimes, req.Runtime))
			_, lacking := device.Give(w.Devices, req.Demand, req.Devices)
			_, far := tooFar(&w, &req)
			return ok && lacking == "" && far.filter == passed && (req.Pinned == "" || req.Pinned == w.ID) && satisfies(w, req)
		}
		if d.Chosen == "" {
			if slices.ContainsFunc(workers, feasible) {
				t.Fatalf("a feasible worker was left out: %s", d.Reason)
			}
			if d.Reason == "" {
				t.Fatal("nothing chosen and no reason")
			}
			return
		}
		i := slices.IndexFunc(workers, func(w WorkerView) bool { return w.ID == d.Chosen })
		if i < 0 || !feasible(workers[i]) {
			t.Fatalf("chose infeasible worker %s", d.Chosen)
		}
		if req.Spread == "none" {
			return
		}
		for _, w := range workers {
			if feasible(w) && max(0, w.Same) < max(0, workers[i].Same) {
				t.Fatalf("%s has %d of the same, %s only %d", d.Chosen, workers[i].Same, w.ID, w.Same)
			}
		}
	})
}

func TestRankClustersProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clusters, req := genClusters(t), genRequest(t)
		if len(clusters) > 0 && rapid.IntRange(0, 3).Draw(t, "cordon") == 0 {
			clusters[0].Cordoned = true
		}
		d := RankClusters(clusters, req)
		checkRecord(t, d, RankClusters(rapid.Permutation(clusters).Draw(t, "order"), req))
		placed := 0
		for _, s := range d.Shares {
			placed += s.Count
			c := clusters[slices.IndexFunc(clusters, func(c ClusterView) bool { return c.ID == s.Cluster })]
			expected, atMost := Expect(c.Aggregate, req.Demand, max(0, req.Count))
			// Pending can only take away, but for the depth it adds to the count.
			if s.Count < 1 || s.Count > atMost || c.Pending == (api.Resources{}) && s.Count > expected {
				t.Fatalf("%s takes %d, expected %d, at most %d", s.Cluster, s.Count, expected, atMost)
			}
			if c.Cordoned || overlap(req.AntiAffinity.Area, c.Areas) || slices.Contains(req.AntiAffinity.Cluster, c.ID) {
				t.Fatalf("%+v is excluded", c)
			}
			if !c.Connected || c.Refused != "" || c.Aggregate.Workers <= 0 {
				t.Fatalf("%+v should take nothing", c)
			}
			if len(req.Affinity.Cluster) > 0 && !slices.Contains(req.Affinity.Cluster, c.ID) {
				t.Fatalf("%s is not in %v", c.ID, req.Affinity.Cluster)
			}
			if len(req.Affinity.Area) > 0 && !overlap(req.Affinity.Area, c.Areas) {
				t.Fatalf("areas %v, wanted %v", c.Areas, req.Affinity.Area)
			}
		}
		if placed+d.Unplaced != max(0, req.Count) || d.Unplaced < 0 {
			t.Fatalf("%d placed, %d not, of %d", placed, d.Unplaced, req.Count)
		}
		if (d.Unplaced > 0) != (d.Reason != "") {
			t.Fatalf("%d unplaced, reason %q", d.Unplaced, d.Reason)
		}
	})
}

// What a cluster takes back from pending never exceeds what the sum still has.
func TestPendingIsTakenOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := drawWorkers(t, 1<<20, 10)
		demand := api.Resources{Memory: api.Bytes(rapid.Int64Range(1, 1<<20).Draw(t, "demand"))}
		under := rapid.IntRange(0, 20).Draw(t, "replicas under way")
		c := ClusterView{ID: "a", Connected: true, Aggregate: aggregateOf(workers)}
		c.Pending.Memory = api.Bytes(under) * demand.Memory
		d := RankClusters([]ClusterView{c}, Request{Count: 30, Demand: demand})
		free := int(c.Aggregate.Memory.Sum)
		if got, left := 30-d.Unplaced, (free-int(c.Pending.Memory))/int(demand.Memory); got > max(0, left) {
			t.Fatalf("takes %d more with room for %d", got, left)
		}
		if fits := truth(workers, demand, 1000); len(workers) <= 2 && 30-d.Unplaced != min(30, max(0, fits-under)) {
			t.Fatalf("takes %d: %d fit, %d are under way", 30-d.Unplaced, fits, under)
		}
	})
}

func TestReplayErrors(t *testing.T) {
	for name, d := range map[string]Decision{
		"unknown kind":   {V: wire.Version, Kind: "gateway"},
		"newer version":  {V: wire.Version + 1, Kind: KindWorker},
		"inputs omitted": {V: wire.Version, Kind: KindWorker, InputsOmitted: 300},
	} {
		if _, err := Replay(d); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
