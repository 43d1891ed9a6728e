package place

import (
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/place/estimate"
	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/wire"
)

// Unfit returns in words why a worker does not satisfy the constraints of a request
// ("lacks label disk=ssd"), "" if it does. It ignores free resources, Request.Pinned,
// and whether the worker is suspect, cordoned or avoided: it answers whether what
// runs there may stay.
func Unfit(w WorkerView, req Request) string {
	req = cleanRequest(req)
	w.Location = geo.CleanPoint(w.Location)
	r := unfit(&w, &req)
	if r.filter == passed {
		return ""
	}
	s := newFilterLog(false, &req)
	s.remove(r, w.ID)
	return s.words(r.filter).one
}

// OffSite returns in words why affinity or anti_affinity by cluster or area rules out
// a cluster, "" if neither does.
func OffSite(c ClusterView, req Request) string {
	req = cleanRequest(req)
	r := site(&c, &req)
	if r.filter == passed {
		return ""
	}
	s := newFilterLog(true, &req)
	s.remove(r, c.ID)
	return s.words(r.filter).one
}

// site applies the filters of clusters by name: affinity and anti_affinity by cluster
// and area.
func site(c *ClusterView, req *Request) removal {
	a := &c.Aggregate
	switch {
	case len(req.Affinity.Cluster) > 0 && !slices.Contains(req.Affinity.Cluster, c.ID):
		return removal{filter: fCluster}
	case len(req.Affinity.Area) > 0 && !overlap(req.Affinity.Area, c.Areas, a.Areas):
		return removal{filter: fArea, has: union(c.Areas, a.Areas)}
	case slices.Contains(req.AntiAffinity.Cluster, c.ID):
		return removal{filter: fAntiCluster}
	case overlap(req.AntiAffinity.Area, c.Areas, a.Areas):
		return removal{filter: fAntiArea, has: common(req.AntiAffinity.Area, union(c.Areas, a.Areas))}
	}
	return removal{filter: passed}
}

// suited returns an upper bound of the ready workers that satisfy the request, or which
// filter removes the cluster because none does. A cluster that does not describe its
// workers (Architectures is nil) is assumed to qualify: it refuses what it cannot take.
func suited(c *ClusterView, req *Request) (int, removal) {
	a := &c.Aggregate
	n := a.Workers
	tells := len(a.Architectures) > 0
	if demand := amount.ToVec(req.Demand); (tells || len(a.Devices) > 0) && device.Needed(demand, req.Devices) {
		if lacks := device.ClusterLacks(a, demand, req.Devices); lacks != "" {
			return 0, removal{filter: fDevices, note: lacks}
		}
	}
	if !tells {
		return n, alone(c, req, n)
	}
	if len(req.Architecture) > 0 {
		have := 0
		for _, arch := range req.Architecture {
			have += max(0, a.Architectures[arch])
		}
		if have == 0 {
			return 0, removal{filter: fArch, has: sortedKeys(a.Architectures)}
		}
		n = min(n, have)
	}
	lacking := ""
	for key, value := range req.Affinity.Labels {
		switch count, told := a.Labels[labelPair(key, value)]; {
		case told && count > 0:
			n = min(n, count)
		case !a.MoreLabels && (lacking == "" || key < lacking):
			lacking = key
		}
	}
	if lacking != "" {
		return 0, removal{filter: fLabels, note: lacking}
	}
	if req.Location != nil || len(req.Affinity.Polygon) > 0 {
		if a.Disc == nil {
			f := fLocation
			if req.Location == nil {
				f = fPolygon
			}
			return 0, removal{filter: f}
		}
		n = min(n, max(1, a.Disc.Workers))
		if l := req.Location; l != nil {
			if km := max(0, geo.DistanceKm(a.Disc.Center, geo.Center(l))-a.Disc.RadiusKm); km > geo.RadiusKm(l) ||
				l.Radius <= 0 {
				return 0, removal{filter: fLocation, point: &a.Disc.Center, km: km}
			}
		}
		if p := req.Affinity.Polygon; len(p) > 0 && !geo.MayTouch(p, a.Disc.Center, a.Disc.RadiusKm) {
			return 0, removal{filter: fPolygon, point: &a.Disc.Center}
		}
	}
	excluded := ""
	for key, value := range req.AntiAffinity.Labels {
		left := a.Workers - a.Labels[labelPair(key, value)]
		if left <= 0 && (excluded == "" || key < excluded) {
			excluded = key
		}
		n = min(n, left)
	}
	if excluded != "" {
		return 0, removal{filter: fAntiLabels, note: excluded}
	}
	return n, alone(c, req, n)
}

// alone removes a cluster if each of its workers runs an instance of a service that
// excludes itself. Which instances are on suspect workers is unknown, so these workers
// count too.
func alone(c *ClusterView, req *Request, workers int) removal {
	if all := workers + c.Aggregate.Suspect; excludesItself(req) && c.Same >= all {
		return removal{filter: fAntiService, free: int64(all)}
	}
	return removal{filter: passed}
}

// excludesItself says whether a worker may have at most one instance of the service.
func excludesItself(req *Request) bool {
	_, service, _ := strings.Cut(req.Instance, ".")
	return slices.Contains(req.AntiAffinity.Service, service)
}

// partOf returns the aggregate of n of the workers, as if free amounts were spread
// evenly.
func partOf(a *wire.Aggregate, n int) wire.Aggregate {
	part := *a
	for _, s := range estimate.SpreadsOf(&part) {
		s.Sum = s.Sum / float64(a.Workers) * float64(n)
	}
	part.Workers = n
	return part
}

// unfit returns the first constraint filter that removes a worker, or passed.
func unfit(w *WorkerView, req *Request) removal {
	switch {
	case req.Runtime != "" && !slices.Contains(w.Runtimes, req.Runtime):
		return removal{filter: fWorkerRuntime, has: w.Runtimes}
	case len(req.Architecture) > 0 && !slices.Contains(req.Architecture, w.Arch):
		return removal{filter: fWorkerArch, note: w.Arch}
	}
	if len(req.Affinity.Labels) > 0 {
		if key := firstLabel(req.Affinity.Labels, w.Labels, false); key != "" {
			return removal{filter: fWorkerLabels, note: key}
		}
	}
	if l := req.Location; l != nil {
		if w.Location == nil || !geo.ValidPoint(*w.Location) {
			return removal{filter: fWorkerLocation}
		}
		if km := geo.DistanceKm(*w.Location, geo.Center(l)); km > geo.RadiusKm(l) || l.Radius <= 0 {
			return removal{filter: fWorkerLocation, point: w.Location, km: km}
		}
	}
	if p := req.Affinity.Polygon; len(p) > 0 &&
		(w.Location == nil || !geo.ValidPoint(*w.Location) || !geo.Inside(p, *w.Location)) {
		return removal{filter: fWorkerPolygon, point: geo.CleanPoint(w.Location)}
	}
	if len(req.AntiAffinity.Labels) > 0 {
		if key := firstLabel(req.AntiAffinity.Labels, w.Labels, true); key != "" {
			return removal{filter: fWorkerAntiLabels, note: key}
		}
	}
	if len(w.Conflicts) > 0 {
		return removal{filter: fConflicts, has: w.Conflicts}
	}
	for _, path := range req.HostPaths {
		if !allowed(path, w.HostPaths) {
			return removal{filter: fVolumes, note: path}
		}
	}
	if req.HostUser != "" && !api.AllowsUser(w.HostUsers, req.HostUser) {
		return removal{filter: fHostUser, note: req.HostUser}
	}
	if demand := amount.ToVec(req.Demand); device.Needed(demand, req.Devices) {
		if lacks := device.Lacks(w.Devices, demand, req.Devices); lacks != "" {
			return removal{filter: fWorkerDevices, note: lacks}
		}
	}
	if req.Overlay != "" && !w.Overlay {
		return removal{filter: fOverlay, note: req.Overlay}
	}
	return removal{filter: passed}
}

// firstLabel returns the smallest key of the requested labels that a worker has (or,
// if has is false, lacks); "" if there is none.
func firstLabel(asked, labels map[string]string, has bool) string {
	first := ""
	for key, value := range asked {
		if got, ok := labels[key]; (ok && got == value) == has && (first == "" || key < first) {
			first = key
		}
	}
	return first
}

// allowed says whether a path is one of the directories or below one.
func allowed(path string, directories []string) bool {
	return slices.ContainsFunc(directories, func(d string) bool {
		return d != "" && (path == d || strings.HasPrefix(path, strings.TrimSuffix(d, "/")+"/"))
	})
}
