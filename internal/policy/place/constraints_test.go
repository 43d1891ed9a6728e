package place

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/wire"
)

// satisfies is what the constraints mean, written a second time.
func satisfies(w WorkerView, r Request) bool {
	for _, need := range r.Devices {
		have := 0
		for _, d := range w.Devices {
			if d.Type == need.Type && (len(need.Model) == 0 || slices.Contains(need.Model, d.Model)) {
				have++
			}
		}
		if have < need.Count && need.Type != api.DeviceGPU { // the number of GPUs is in Demand
			return false
		}
	}
	for k, v := range r.Affinity.Labels {
		if got, ok := w.Labels[k]; !ok || got != v {
			return false
		}
	}
	for k, v := range r.AntiAffinity.Labels {
		if got, ok := w.Labels[k]; ok && got == v {
			return false
		}
	}
	located := w.Location != nil && w.Location[0] >= -90 && w.Location[0] <= 90
	if r.Location != nil && (!located || r.Location.Radius <= 0 ||
		geo.DistanceKm(*w.Location, api.Point{r.Location.Latitude, r.Location.Longitude})*1000 > float64(r.Location.Radius)) {
		return false
	}
	if len(r.Affinity.Polygon) > 0 && (!located || !geo.Inside(r.Affinity.Polygon, *w.Location)) {
		return false
	}
	for _, p := range r.HostPaths {
		if !slices.ContainsFunc(w.HostPaths, func(d string) bool { return p == d || strings.HasPrefix(p, strings.TrimSuffix(d, "/")+"/") }) {
			return false
		}
	}
	if r.HostUser != "" && !slices.Contains(w.HostUsers, r.HostUser) {
		return false
	}
	if r.Overlay != "" && !w.Overlay {
		return false
	}
	return len(w.Conflicts) == 0 && (len(r.Architecture) == 0 || slices.Contains(r.Architecture, w.Arch))
}

var munich = api.Point{48.14, 11.58}

func at(p api.Point) func(*WorkerView)         { return func(w *WorkerView) { w.Location = &p } }
func labelled(kv ...string) func(*WorkerView)  { return func(w *WorkerView) { w.Labels = labelMap(kv) } }
func arch(a string) func(*WorkerView)          { return func(w *WorkerView) { w.Arch = a } }
func allows(paths ...string) func(*WorkerView) { return func(w *WorkerView) { w.HostPaths = paths } }
func beside(names ...string) func(*WorkerView) { return func(w *WorkerView) { w.Conflicts = names } }
func cordoned(w *WorkerView)                   { w.Cordoned = true }
func overlay(w *WorkerView)                    { w.Overlay = true }
func wantLabels(kv ...string) func(*Request) {
	return func(r *Request) { r.Affinity.Labels = labelMap(kv) }
}
func excludeLabels(kv ...string) func(*Request) {
	return func(r *Request) { r.AntiAffinity.Labels = labelMap(kv) }
}
func wantArch(a ...string) func(*Request) { return func(r *Request) { r.Architecture = a } }
func near(d api.Distance) func(*Request) {
	return func(r *Request) { r.Location = &api.Location{Latitude: munich[0], Longitude: munich[1], Radius: d} }
}
func within(p ...api.Point) func(*Request) { return func(r *Request) { r.Affinity.Polygon = p } }
func uses(paths ...string) func(*Request)  { return func(r *Request) { r.HostPaths = paths } }
func asUser(user string) func(*Request)    { return func(r *Request) { r.HostUser = user } }
func runsAs(users ...string) func(*WorkerView) {
	return func(w *WorkerView) { w.HostUsers = users }
}
func pinned(w string) func(*Request) { return func(r *Request) { r.Pinned = w } }

func labelMap(kv []string) map[string]string {
	m := map[string]string{}
	for _, pair := range kv {
		k, v, _ := strings.Cut(pair, "=")
		m[k] = v
	}
	return m
}

var bavaria = []api.Point{{47.3, 9.5}, {50.2, 9.0}, {50.3, 12.2}, {48.6, 13.8}, {47.5, 13.0}}

// Each constraint: who satisfies it is chosen, and the words for who does not.
func TestScheduleConstraints(t *testing.T) {
	var none api.Resources
	garching, berlin := api.Point{48.2489, 11.6532}, api.Point{52.52, 13.405}
	for name, c := range map[string]struct {
		workers []WorkerView
		change  func(*Request)
		want    string
		filter  Filter
		reason  string // where the first worker is the only one
	}{
		"cordoned": {
			[]WorkerView{worker("a", none, cordoned), worker("b", none)}, unchanged, "b",
			Filter{"cordoned", 1, "a: cordoned"}, "1 worker: 1 is cordoned",
		},
		"host user": {
			[]WorkerView{worker("a", none), worker("b", none, runsAs("root"))}, asUser("root"), "b",
			Filter{"user", 1, "a: user root is not allowed there"}, "1 worker: 1 does not allow the user root",
		},
		"pinned": {
			[]WorkerView{worker("a", none), worker("b", none)}, pinned("b"), "b",
			Filter{"pinned", 1, "a: is not b, which has its volume"}, "1 worker: 1 is not b, which has its volume",
		},
		"architecture": {
			[]WorkerView{worker("a", none, arch("amd64")), worker("b", none, arch("arm64"))}, wantArch("arm64", "riscv64"), "b",
			Filter{"architecture", 1, "a: lacks architecture arm64 or riscv64 (has amd64)"}, "1 worker: 1 lacks architecture arm64 or riscv64 (has amd64)",
		},
		"labels": {
			[]WorkerView{worker("a", none, labelled("disk=hdd")), worker("b", none, labelled("disk=ssd", "gpu=no"))}, wantLabels("disk=ssd"), "b",
			Filter{"affinity.labels", 1, "a: lacks label disk=ssd"}, "1 worker: 1 lacks label disk=ssd",
		},
		"all labels": {
			[]WorkerView{worker("a", none, labelled("disk=ssd")), worker("b", none, labelled("disk=ssd", "zone=a"))}, wantLabels("disk=ssd", "zone=a"), "b",
			Filter{"affinity.labels", 1, "a: lacks label zone=a"}, "1 worker: 1 lacks label zone=a",
		},
		"a label without a value": {
			[]WorkerView{worker("a", none), worker("b", none, labelled("gpu="))}, wantLabels("gpu="), "b",
			Filter{"affinity.labels", 1, "a: lacks label gpu="}, "1 worker: 1 lacks label gpu=",
		},
		"location": {
			[]WorkerView{worker("a", none, at(berlin)), worker("b", none, at(garching))}, near(20_000), "b",
			Filter{"location", 1, "a: is not within 20km of 48.14,11.58: 504 km away"}, "1 worker: 1 is not within 20km of 48.14,11.58: 504 km away",
		},
		"a little too far": {
			[]WorkerView{worker("a", none, at(garching)), worker("b", none, at(munich))}, near(13_000), "b",
			Filter{"location", 1, "a: is not within 13km of 48.14,11.58: 13.3 km away"}, "1 worker: 1 is not within 13km of 48.14,11.58: 13.3 km away",
		},
		"location unknown": {
			[]WorkerView{worker("a", none), worker("b", none, at(munich))}, near(1), "b",
			Filter{"location", 1, "a: does not know its location"}, "1 worker: 1 does not know its location",
		},
		"polygon": {
			[]WorkerView{worker("a", none, at(berlin)), worker("b", none, at(munich))}, within(bavaria...), "b",
			Filter{"affinity.polygon", 1, "a: is outside of the area"}, "1 worker: 1 is outside of the area",
		},
		"polygon, location unknown": {
			[]WorkerView{worker("a", none), worker("b", none, at(munich))}, within(bavaria...), "b",
			Filter{"affinity.polygon", 1, "a: does not know its location"}, "1 worker: 1 does not know its location",
		},
		"labels excluded": {
			[]WorkerView{worker("a", none, labelled("disk=hdd")), worker("b", none, labelled("disk=ssd"))}, excludeLabels("disk=hdd", "x=y"), "b",
			Filter{"anti_affinity.labels", 1, "a: has label disk=hdd, which is excluded"}, "1 worker: 1 has label disk=hdd, which is excluded",
		},
		"services kept apart": {
			[]WorkerView{worker("a", none, beside("db")), worker("b", none)}, unchanged, "b",
			Filter{"anti_affinity.service", 1, "a: runs db, which is kept apart from it"}, "1 worker: 1 runs db, which is kept apart from it",
		},
		"host path": {
			[]WorkerView{worker("a", none, allows("/srv/mediathek", "")), worker("b", none, allows("/srv"))}, uses("/srv/media"), "b",
			Filter{"volumes", 1, "a: host path /srv/media is not allowed there"}, "1 worker: 1 does not allow the host path /srv/media",
		},
		"network": {
			[]WorkerView{worker("a", none), worker("b", none, overlay)}, func(r *Request) { r.Overlay = "bandwidth" }, "b",
			Filter{"network", 1, "a: is not part of the service network, which bandwidth needs"}, "1 worker: 1 is not part of the service network, which bandwidth needs",
		},
		"each host path": {
			[]WorkerView{worker("a", none, allows("/srv/media/")), worker("b", none, allows("/"))}, uses("/srv/media", "/etc"), "b",
			Filter{"volumes", 1, "a: host path /srv/media is not allowed there"}, "1 worker: 1 does not allow the host path /srv/media",
		},
	} {
		d := Schedule(c.workers, with(c.change))
		if d.Chosen != c.want || len(d.Filtered) != 1 || d.Filtered[0] != c.filter {
			t.Errorf("%s: chose %q, filters %+v, want %q and %+v", name, d.Chosen, d.Filtered, c.want, c.filter)
		}
		if d = Schedule(c.workers[:1], with(c.change)); d.Reason != c.reason {
			t.Errorf("%s: reason %q, want %q", name, d.Reason, c.reason)
		}
	}
}

func TestScheduleReasonsOfMany(t *testing.T) {
	var none api.Resources
	for want, c := range map[string]struct {
		change  func(*WorkerView)
		request func(*Request)
	}{
		"2 workers: 2 lack label disk=ssd":                            {unchangedWorker, wantLabels("disk=ssd")},
		"2 workers: 2 lack one of the labels disk=ssd, zone=a":        {unchangedWorker, wantLabels("zone=a", "disk=ssd")},
		"2 workers: 2 are not known to be within 20km of 48.14,11.58": {unchangedWorker, near(20_000)},
		"2 workers: 2 are outside of the area":                        {unchangedWorker, within(bavaria...)},
		"2 workers: 2 have a label that is excluded (disk=hdd)":       {labelled("disk=hdd"), excludeLabels("disk=hdd")},
		"2 workers: 2 run a service that is kept apart from it":       {beside("db"), unchanged},
		"2 workers: 2 do not allow the host path /srv":                {unchangedWorker, uses("/srv")},
		"2 workers: 2 lack architecture arm64":                        {arch("amd64"), wantArch("arm64")},
		"2 workers: 2 are not w3, which has its volume":               {unchangedWorker, pinned("w3")},
		"2 workers: 2 are cordoned":                                   {cordoned, unchanged},
	} {
		if d := Schedule([]WorkerView{worker("a", none, c.change), worker("b", none, c.change)}, with(c.request)); d.Reason != want {
			t.Errorf("%q, want %q", d.Reason, want)
		}
	}
}

func unchangedWorker(*WorkerView) {}

// of is a cluster of these workers, as the root sees it.
func of(id string, workers ...WorkerView) ClusterView {
	c := ClusterView{ID: id, Connected: true, Runtimes: []string{"process"}, Aggregate: aggregateOf(workers)}
	Describe(workers, &c.Aggregate)
	return c
}

func TestRankClustersConstraints(t *testing.T) {
	var none api.Resources
	berlin := api.Point{52.52, 13.405}
	far := of("a", worker("1", none, at(berlin), labelled("disk=hdd"), arch("arm64")), worker("2", none, at(berlin), labelled("disk=hdd"), arch("arm64")))
	good := of("b", worker("1", none, at(munich), labelled("disk=ssd"), arch("amd64")), worker("2", none, arch("amd64")))
	north := of("a", worker("1", none, arch("arm64")))
	north.Areas = []string{"north", "coast"}
	off := far
	off.Cordoned = true
	for name, c := range map[string]struct {
		first  ClusterView
		change func(*Request)
		filter Filter
		reason string
	}{
		"cordoned":              {off, unchanged, Filter{"cordoned", 1, "a: cordoned"}, "1 cluster: 1 is cordoned"},
		"anti_affinity.cluster": {far, func(r *Request) { r.AntiAffinity.Cluster = []string{"a"} }, Filter{"anti_affinity.cluster", 1, "a: is excluded by name"}, "1 cluster: 1 is excluded by name"},
		"anti_affinity.area": {north, func(r *Request) { r.AntiAffinity.Area = []string{"east", "coast"} },
			Filter{"anti_affinity.area", 1, "a: has area coast, which is excluded"}, "1 cluster: 1 has area coast, which is excluded"},
		"architecture": {far, wantArch("amd64"), Filter{"architecture", 1, "a: lacks architecture amd64 (has arm64)"}, "1 cluster: 1 lacks architecture amd64 (has arm64)"},
		"labels":       {far, wantLabels("disk=ssd"), Filter{"affinity.labels", 1, "a: lacks label disk=ssd"}, "1 cluster: 1 lacks label disk=ssd"},
		"location": {far, near(20_000), Filter{"location", 1, "a: is not within 20km of 48.14,11.58: 504 km away"},
			"1 cluster: 1 is not within 20km of 48.14,11.58: 504 km away"},
		"location unknown": {north, near(20_000), Filter{"location", 1, "a: has no worker that knows its location"}, "1 cluster: 1 has no worker that knows its location"},
		"polygon":          {far, within(bavaria...), Filter{"affinity.polygon", 1, "a: has no worker in the area"}, "1 cluster: 1 has no worker in the area"},
		"polygon, location unknown": {north, within(bavaria...), Filter{"affinity.polygon", 1, "a: has no worker that knows its location"},
			"1 cluster: 1 has no worker that knows its location"},
		"labels excluded": {far, excludeLabels("disk=hdd"), Filter{"anti_affinity.labels", 1, "a: has label disk=hdd on every worker, which is excluded"},
			"1 cluster: 1 has label disk=hdd on every worker, which is excluded"},
		"one on each worker": {func() ClusterView { c := far; c.Same = 2; return c }(), func(r *Request) { r.AntiAffinity.Service = []string{"web"} },
			Filter{"anti_affinity.service", 1, "a: has an instance on each of its 2 workers"}, "1 cluster: 1 has an instance on each of its 2 workers"},
	} {
		req := request(1)
		c.change(&req)
		d := RankClusters([]ClusterView{c.first, good}, req)
		if shares(d) != "b=1" || len(d.Filtered) != 1 || d.Filtered[0] != c.filter {
			t.Errorf("%s: %q, filters %+v, want %+v", name, shares(d), d.Filtered, c.filter)
		}
		if d = RankClusters([]ClusterView{c.first}, req); d.Reason != c.reason {
			t.Errorf("%s: reason %q, want %q", name, d.Reason, c.reason)
		}
	}
}

// A cluster is not given more than one replica for each of its workers where the
// service keeps to itself, nor much more than its suitable workers can take.
func TestRankClustersGivesWhatSuits(t *testing.T) {
	var none api.Resources
	apart := request(5)
	apart.AntiAffinity.Service = []string{"web"}
	a := of("a", worker("1", none), worker("2", none), worker("3", none))
	a.Same = 1
	if d := RankClusters([]ClusterView{a, of("b", worker("1", none))}, apart); shares(d) != "a=2 b=1" || d.Unplaced != 2 {
		t.Errorf("one on each: %q, %d unplaced: %s", shares(d), d.Unplaced, d.Reason)
	}
	// Eight of 512Mi fit on each worker, and one of four has the label.
	ssd := request(40)
	ssd.Affinity.Labels = map[string]string{"disk": "ssd"}
	b := of("a", worker("1", none, labelled("disk=ssd"), arch("amd64")), worker("2", none), worker("3", none), worker("4", none))
	if d := RankClusters([]ClusterView{b}, ssd); shares(d) != "a=8" {
		t.Errorf("one of four has the label: %q", shares(d))
	}
	// All that is free may be on the one that has it.
	c := of("a", worker("1", none, labelled("disk=ssd"), arch("amd64")), worker("2", size4), worker("3", size4), worker("4", size4))
	if d := RankClusters([]ClusterView{c}, ssd); len(d.Shares) == 0 {
		t.Errorf("nothing is offered: %s", d.Reason)
	}
}

// A cluster of an older version does not tell what its workers are like, and may
// have what is asked for.
func TestRankClustersTrustsOlderClusters(t *testing.T) {
	req := request(1)
	req.Architecture, req.Affinity.Labels, req.Affinity.Polygon = []string{"arm64"}, map[string]string{"a": "b"}, bavaria
	near(1)(&req)
	if d := RankClusters([]ClusterView{cluster("a", 1, roomy)}, req); shares(d) != "a=1" {
		t.Errorf("%q: %s", shares(d), d.Reason)
	}
}

// The root never passes over a cluster that has a worker which satisfies the
// constraints, although all it knows of them is the aggregate.
func TestConstraintsAreNeverOverlooked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := genWorkers(t)
		req := Request{Instance: "shop.web", Count: 1}
		genConstraints(t, &req)
		req.AntiAffinity.Service, req.AntiAffinity.Cluster = nil, nil
		c := of("c", workers...)
		d := RankClusters([]ClusterView{c}, req)
		good := slices.ContainsFunc(workers, func(w WorkerView) bool {
			w.Conflicts, w.HostPaths = nil, []string{"/"} // the root does not know of these
			return !w.Suspect && satisfies(w, req)
		})
		if good && len(d.Shares) == 0 {
			t.Fatalf("passed over: %s\n%+v", d.Reason, c.Aggregate)
		}
	})
}

func TestUnfitAndOffSite(t *testing.T) {
	var none api.Resources
	req := with(wantLabels("disk=ssd"))
	for want, w := range map[string]WorkerView{
		"":                                     worker("a", size4, labelled("disk=ssd"), suspect, cordoned),
		"lacks label disk=ssd":                 worker("a", none),
		"runs db, which is kept apart from it": worker("a", none, labelled("disk=ssd"), beside("db")),
		"lacks runtime process (has wasm)":     worker("a", none, runs("wasm")),
	} {
		if got := Unfit(w, req); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	req.Affinity.Cluster, req.AntiAffinity.Area = []string{"fog"}, []string{"north"}
	for want, c := range map[string]ClusterView{
		"":                                  {ID: "fog", Areas: []string{"south"}},
		"is not fog":                        {ID: "edge"},
		"has area north, which is excluded": {ID: "fog", Aggregate: wire.Aggregate{Areas: []string{"north"}}},
	} {
		if got := OffSite(c, req); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNewRequest(t *testing.T) {
	s := &api.Service{
		Runtime: "process", Architecture: []string{"arm64"}, Location: &api.Location{Radius: 1},
		Volumes:      []api.Volume{{Path: "a", Name: "n"}, {Path: "b", Host: "/srv"}, {Path: "c", Tmpfs: 1}},
		AntiAffinity: api.AntiAffinity{Service: []string{"web"}},
	}
	r := NewRequest("shop.web.0", s, 1)
	if r.Instance != "shop.web.0" || r.Runtime != "process" || !slices.Equal(r.HostPaths, []string{"/srv"}) ||
		!slices.Equal(r.Architecture, s.Architecture) || r.Location != s.Location || len(r.AntiAffinity.Service) != 1 {
		t.Errorf("%+v", r)
	}
}

// Records stay small: of 256 workers with 32 labels each they carry what was
// asked about.
func TestRecordsCarryWhatWasAsked(t *testing.T) {
	var ws []WorkerView
	for i := range MaxInputs {
		var kv []string
		for j := range 32 {
			kv = append(kv, fmt.Sprintf("key-%d=%s", j, strings.Repeat("v", 50)))
		}
		ws = append(ws, worker(fmt.Sprint(i), api.Resources{}, labelled(append(kv, "disk=ssd")...)))
	}
	d := Schedule(ws, with(wantLabels("disk=ssd")))
	for _, w := range d.Workers {
		if len(w.Labels) != 1 || w.Labels["disk"] != "ssd" {
			t.Fatalf("carries %v", w.Labels)
		}
	}
	if len(ws[0].Labels) != 33 {
		t.Error("the input was changed")
	}
}

func BenchmarkSchedule10000Constrained(b *testing.B) {
	ws, req := many(10000), with(unchanged)
	for i := range ws {
		p := api.Point{48 + float64(i%100)/100, 11 + float64(i%90)/90}
		ws[i].Arch, ws[i].Location = archs[i%2], &p
		ws[i].Labels = map[string]string{"disk": []string{"ssd", "hdd"}[i%3/2], "zone": "a"}
	}
	for _, f := range []func(*Request){wantArch("amd64"), wantLabels("disk=ssd"), near(50_000), within(bavaria...)} {
		f(&req)
	}
	b.ReportAllocs()
	for b.Loop() {
		if d := Schedule(ws, req); d.Chosen == "" {
			b.Fatal(d.Reason)
		}
	}
}
