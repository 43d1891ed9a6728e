package place

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// Inputs come from other machines. What is impossible in them (negative, not a
// number, infinite) counts as nothing free and nothing demanded, here and only
// here, so that the deciders need not look again. The record keeps the cleaned
// form: it is what was decided on, and JSON has no word for NaN.

func cleanRequest(r Request) Request {
	r.Count = min(max(0, r.Count), api.MaxReplicas)
	r.Demand = cleanResources(r.Demand)
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
	r.Data = cloneList(r.Data)
	latency := r.Latency
	r.Latency = nil
	for i := range latency {
		r.Latency = append(r.Latency, cleanThreshold(latency[i]))
	}
	r.Advice, r.Traffic = cleanAdvice(r.Advice), cleanTraffic(r.Traffic)
	if r.Location != nil {
		l := *r.Location
		if !validPoint(api.Point{l.Latitude, l.Longitude}) || l.Radius < 0 {
			l = api.Location{} // nobody is in a circle without a radius
		}
		r.Location = &l
	}
	return r
}

// clonePolygon copies a polygon; one with an impossible corner becomes one that
// has nothing in it.
func clonePolygon(p []api.Point) []api.Point {
	if len(p) == 0 {
		return nil
	}
	if slices.ContainsFunc(p, func(c api.Point) bool { return !validPoint(c) }) {
		return []api.Point{{90, 0}}
	}
	return slices.Clone(p)
}

// cloneMap copies a mapping; an empty one becomes nil, as in cloneList.
func cloneMap[V any](m map[string]V) map[string]V {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
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

func cleanResources(r api.Resources) api.Resources {
	return Larger(r, api.Resources{})
}

// cleanRate makes nothing of a rate that is impossible.
func cleanRate(x float64) float64 {
	if !(x >= 0) || math.IsInf(x, 1) {
		return 0
	}
	return x
}

// cleanSpread drops a distribution of which any number is impossible: one that
// is wrong in one number is not to be trusted in the others.
func cleanSpread(s wire.Spread) wire.Spread {
	for _, f := range [...]float64{s.Sum, s.Mean, s.Dev, s.Max} {
		if math.IsNaN(f) || f < 0 || f > math.MaxInt64 {
			return wire.Spread{}
		}
	}
	return s
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
	for _, s := range spreadsOf(a) {
		*s = cleanSpread(*s)
	}
	a.Capacity = cleanResources(a.Capacity)
	if a.Disc != nil {
		d := *a.Disc
		if a.Disc = &d; !validPoint(d.Center) || !(d.RadiusKm >= 0) || d.RadiusKm > 2*maxKm {
			d.Center, d.RadiusKm = api.Point{}, maxKm // somewhere
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
		a.Lower[i].Used, a.Lower[i].Room = cleanResources(a.Lower[i].Used), cleanResources(a.Lower[i].Room)
	}
	a.Site, a.Objects = wire.Site{}, nil // for people; counted as ClusterView.Lacks
}

// maxKm is more than the distance of any two places.
const maxKm = earthKm * 4

// cleanCluster cleans c; with deep it shares nothing with what c was copied from.
func cleanCluster(c *ClusterView, req *Request, deep bool) {
	a := &c.Aggregate
	a.Labels = labelsAsked(a.Labels, req, labelPair)
	if !asksDevices(toVec(req.Demand), req.Devices) {
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
	c.Pending = cleanResources(c.Pending)
	c.Same, c.Lacks, c.Entering = max(0, c.Same), min(max(0, c.Lacks), len(req.Data)), cleanRate(c.Entering)
}

// inOrder are the indices of clusters in the order of their ids.
func inOrder(clusters []ClusterView) []int {
	order := make([]int, len(clusters))
	for i := range order {
		order[i] = i
	}
	byID := func(a, b int) int { return cmp.Compare(clusters[a].ID, clusters[b].ID) }
	if !slices.IsSortedFunc(order, byID) {
		slices.SortStableFunc(order, byID)
	}
	return order
}

// cleanWorkers returns a deep copy in the order of ids.
func cleanWorkers(in []WorkerView, req *Request) []WorkerView {
	out := make([]WorkerView, len(in))
	for i, w := range in {
		w.Runtimes = cloneList(w.Runtimes)
		w.Capacity, w.Used = cleanResources(w.Capacity), cleanResources(w.Used)
		w.Same, w.Throughput = max(0, w.Same), cleanRate(w.Throughput)
		w.Labels = labelsAsked(w.Labels, req, labelKey)
		w.Location, w.Coord = cleanPoint(w.Location), cleanCoord(w.Coord)
		w.Devices = cleanDevices(w.Devices, req)
		w.HostPaths, w.HostUsers, w.Conflicts = cloneList(w.HostPaths), cloneList(w.HostUsers), cloneList(w.Conflicts)
		out[i] = w
	}
	slices.SortStableFunc(out, func(a, b WorkerView) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// cloneList copies a list; an empty one becomes nil, as it does on its way
// through JSON.
func cloneList(l []string) []string {
	if len(l) == 0 {
		return nil
	}
	return slices.Clone(l)
}
