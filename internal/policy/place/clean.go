package place

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/place/estimate"
	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/wire"
)

// Inputs come from other machines. Impossible values (negative, not a number,
// infinite) count as nothing free and nothing demanded. That is handled only here,
// so that the deciders need not check. The record has the cleaned form: the decision
// was made on that, and JSON cannot express NaN.

func cleanRequest(r Request) Request {
	r.Count = min(max(0, r.Count), api.MaxReplicas)
	r.Demand = amount.Clean(r.Demand)
	r.Affinity.Cluster = cloneList(r.Affinity.Cluster)
	r.Affinity.Area = cloneList(r.Affinity.Area)
	r.Affinity.Polygon = clonePolygon(r.Affinity.Polygon)
	r.Affinity.Labels = cloneMap(r.Affinity.Labels)
	r.AntiAffinity.Cluster = cloneList(r.AntiAffinity.Cluster)
	r.AntiAffinity.Area = cloneList(r.AntiAffinity.Area)
	r.AntiAffinity.Service = cloneList(r.AntiAffinity.Service)
	r.AntiAffinity.Labels = cloneMap(r.AntiAffinity.Labels)
	r.Architecture = cloneList(r.Architecture)
	r.HostPaths = cloneList(r.HostPaths)
	r.Devices = cleanNeeds(r.Devices)
	r.Priority = min(max(0, r.Priority), api.MaxPriority)
	r.Avoid = cloneList(r.Avoid)
	r.Data, r.Usual = cloneList(r.Data), r.Usual.Clean()
	latency := r.Latency
	r.Latency = nil
	for i := range latency {
		r.Latency = append(r.Latency, cleanThreshold(latency[i]))
	}
	r.Advice, r.Traffic = cleanAdvice(r.Advice), cleanTraffic(r.Traffic)
	if r.Location != nil {
		l := *r.Location
		if !geo.ValidPoint(api.Point{l.Latitude, l.Longitude}) || l.Radius < 0 {
			l = api.Location{} // no worker is in a circle without a radius
		}
		r.Location = &l
	}
	return r
}

// clonePolygon copies a polygon; one with an impossible corner becomes one that contains
// nothing.
func clonePolygon(p []api.Point) []api.Point {
	if len(p) == 0 {
		return nil
	}
	if slices.ContainsFunc(p, func(c api.Point) bool { return !geo.ValidPoint(c) }) {
		return []api.Point{{90, 0}}
	}
	return slices.Clone(p)
}

// labelsAsked returns the labels that r asks about. A record that carries its
// inputs has only these of each worker: 256 workers may have 8,000.
func labelsAsked[V any](labels map[string]V, r *Request, write func(key, value string) string) map[string]V {
	var out map[string]V
	for _, asked := range [...]map[string]string{r.Affinity.Labels, r.AntiAffinity.Labels} {
		for key, value := range asked {
			name := write(key, value)
			if v, has := labels[name]; has {
				if out == nil {
					out = map[string]V{}
				}
				out[name] = v
			}
		}
	}
	return out
}

func labelKey(key, _ string) string      { return key }
func labelPair(key, value string) string { return key + "=" + value }

// cleanRate returns 0 for an impossible rate.
func cleanRate(x float64) float64 {
	if !(x >= 0) || math.IsInf(x, 1) {
		return 0
	}
	return x
}

// cleanAggregate returns a clean copy that shares nothing with a.
func cleanAggregate(a wire.Aggregate) wire.Aggregate {
	a.Areas, a.Runtimes, a.Plugins = cloneList(a.Areas), cloneList(a.Runtimes), cloneList(a.Plugins)
	a.Architectures, a.Labels, a.Devices = cloneMap(a.Architectures), cloneMap(a.Labels), cloneMap(a.Devices)
	cleanNumbers(&a)
	return a
}

func cleanNumbers(a *wire.Aggregate) {
	a.Workers, a.Suspect, a.Cordoned = max(0, a.Workers), max(0, a.Suspect), max(0, a.Cordoned)
	for _, s := range estimate.SpreadsOf(a) {
		*s = estimate.CleanSpread(*s)
	}
	a.Capacity = amount.Clean(a.Capacity)
	if a.Disc != nil {
		d := *a.Disc
		if a.Disc = &d; !geo.ValidPoint(d.Center) || !(d.RadiusKm >= 0) || d.RadiusKm > 2*geo.MaxKm {
			d.Center, d.RadiusKm = api.Point{}, geo.MaxKm // somewhere
		}
		d.Workers = max(0, d.Workers)
	}
	if a.Around != nil {
		r := *a.Around
		if a.Around = &r; !r.Center.Valid() || r.Center.Error >= wire.UnknownError || r.Radius < 0 {
			a.Around = nil
		}
		r.Radius, r.Workers, r.Outside = min(r.Radius, maxRadius), max(0, r.Workers), max(0, r.Outside)
	}
	a.Lower = slices.Clone(a.Lower[:min(len(a.Lower), wire.MaxLower)])
	for i := range a.Lower {
		a.Lower[i].Used, a.Lower[i].Room = amount.Clean(a.Lower[i].Used), amount.Clean(a.Lower[i].Room)
	}
	a.Site, a.Objects = wire.Site{}, nil // Site is for people, Objects are in ClusterView.Lacks
}

// cleanCluster cleans c; with deep, c then shares nothing with its original.
func cleanCluster(c *ClusterView, req *Request, deep bool) {
	a := &c.Aggregate
	a.Labels = labelsAsked(a.Labels, req, labelPair)
	if !device.Needed(amount.ToVec(req.Demand), req.Devices) {
		a.Devices, a.MoreDevices = nil, false
	}
	if len(req.Latency) == 0 {
		a.Around = nil
	}
	if deep {
		c.Areas, c.Runtimes = cloneList(c.Areas), cloneList(c.Runtimes)
		*a = cleanAggregate(*a)
	} else {
		cleanNumbers(a)
	}
	c.Pending = amount.Clean(c.Pending)
	c.Same, c.Lacks, c.Entering = max(0, c.Same), min(max(0, c.Lacks), len(req.Data)), cleanRate(c.Entering)
}

// inOrder are the indices of clusters in the order of their ids; nil: they are in that order.
func inOrder(clusters []ClusterView) []int {
	n := 1
	for n < len(clusters) && clusters[n-1].ID <= clusters[n].ID {
		n++
	}
	if n >= len(clusters) {
		return nil
	}
	order := make([]int, len(clusters))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(clusters[a].ID, clusters[b].ID) })
	return order
}

// cleanWorkers returns a deep copy in the order of ids.
func cleanWorkers(in []WorkerView, req *Request) []WorkerView {
	out := make([]WorkerView, len(in))
	for i, w := range in {
		w.Runtimes = cloneList(w.Runtimes)
		w.Capacity, w.Used = amount.Clean(w.Capacity), amount.Clean(w.Used)
		w.Same, w.Throughput = max(0, w.Same), cleanRate(w.Throughput)
		w.Labels = labelsAsked(w.Labels, req, labelKey)
		w.Location, w.Coord = geo.CleanPoint(w.Location), geo.CleanCoord(w.Coord)
		w.Devices = cleanDevices(w.Devices, req)
		w.HostPaths, w.HostUsers, w.Conflicts = cloneList(w.HostPaths), cloneList(w.HostUsers), cloneList(w.Conflicts)
		out[i] = w
	}
	slices.SortStableFunc(out, func(a, b WorkerView) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// cleanDevices keeps the devices of the types that r asks about: a record that carries
// its inputs has only these of each worker.
func cleanDevices(in []device.Device, r *Request) []device.Device {
	demand := amount.ToVec(r.Demand)
	if len(in) == 0 || !device.Needed(demand, r.Devices) {
		return nil
	}
	var out []device.Device
	for _, d := range in {
		for n := range device.Needs(demand, r.Devices) {
			if d.Type == n.Of.Type {
				d.Used = min(max(0, d.Used), device.Whole)
				out = append(out, d)
				break
			}
		}
	}
	return out
}

// cleanNeeds copies a list of devices and bounds their counts.
func cleanNeeds(in []api.DeviceNeed) []api.DeviceNeed {
	if len(in) == 0 {
		return nil
	}
	out := slices.Clone(in)
	for i := range out {
		out[i].Count = min(max(0, out[i].Count), api.MaxDevices)
		out[i].Model = cloneList(out[i].Model)
	}
	return out
}

// cleanThreshold returns a copy without what is impossible.
func cleanThreshold(t Threshold) Threshold {
	t.Max, t.Distance = max(0, t.Max), max(0, t.Distance)
	targets := t.Targets
	t.Targets = nil
	for i := range targets {
		t.Targets = append(t.Targets, cleanTarget(targets[i]))
	}
	return t
}

// maxRadius is more than the distance of any two coordinates; sums of it do not overflow.
const maxRadius = api.Duration(time.Hour)

// cleanTarget returns a copy without what is impossible.
func cleanTarget(t Target) Target {
	t.Location, t.Coord, t.Margin = geo.CleanPoint(t.Location), geo.CleanCoord(t.Coord), min(max(0, t.Margin), maxRadius)
	t.Direct, t.Radius = cloneMap(t.Direct), min(max(0, t.Radius), maxRadius)
	if !(t.RadiusKm >= 0) || t.RadiusKm > geo.MaxKm {
		t.RadiusKm = geo.MaxKm
	}
	return t
}

const (
	// MaxEntries is how many entries count, those with the highest rates.
	MaxEntries = 64
	// unknownRTT is the assumed round trip where nothing is known: more than around the
	// Earth.
	unknownRTT = 300 * time.Millisecond
	// shortlist is how many workers are evaluated in full, the nearest ones.
	shortlist = 32
	// heaviest is how many entries determine the shortlist of many workers.
	heaviest = 16
	// quanta is the number of parts in which the rate of an entry is divided among replicas.
	quanta = 16
	// crowded is the utilization of a replica beyond which its response time is taken to
	// grow linearly: at 1 an M/M/1 queue has no mean.
	crowded = 0.95
)

// cleanTraffic returns a copy without what is impossible, nil where nothing is left.
func cleanTraffic(t *Traffic) *Traffic {
	if t == nil {
		return nil
	}
	c := Traffic{Exec: max(0, t.Exec), RPS: cleanRate(t.RPS)}
	for _, e := range t.Points {
		if e.Rate = cleanRate(e.Rate); e.Rate > 0 {
			e.At = cleanTarget(e.At)
			c.Points = append(c.Points, e)
		}
	}
	slices.SortStableFunc(c.Points,
		func(a, b Entry) int { return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.At.ID, b.At.ID)) })
	if c.Points = c.Points[:min(len(c.Points), MaxEntries)]; len(c.Points) == 0 {
		return nil
	}
	for id, n := range t.Replicas {
		if n > 0 {
			if c.Replicas == nil {
				c.Replicas = map[string]int{}
			}
			c.Replicas[id] = n
		}
	}
	return &c
}

// cleanAdvice returns a deep copy.
func cleanAdvice(a *Advice) *Advice {
	if a == nil {
		return nil
	}
	c := *a
	c.Ranking, c.Rejected = slices.Clone(a.Ranking), maps.Clone(a.Rejected)
	for i := range c.Ranking {
		c.Ranking[i].Parts = nil
	}
	return &c
}
