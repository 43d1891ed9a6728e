package place

import (
	"cmp"
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
	r.Avoid = cloneList(r.Avoid)
	return r
}

func cleanResources(r api.Resources) api.Resources {
	return api.Resources{CPU: max(0, r.CPU), Memory: max(0, r.Memory), Disk: max(0, r.Disk)}
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

func cleanAggregate(a wire.Aggregate) wire.Aggregate {
	a.Workers, a.Suspect = max(0, a.Workers), max(0, a.Suspect)
	a.Areas, a.Runtimes = cloneList(a.Areas), cloneList(a.Runtimes)
	a.CPU, a.Memory, a.Disk = cleanSpread(a.CPU), cleanSpread(a.Memory), cleanSpread(a.Disk)
	a.Capacity = cleanResources(a.Capacity)
	return a
}

// cleanClusters returns a deep copy in the order of ids.
func cleanClusters(in []ClusterView) []ClusterView {
	out := make([]ClusterView, len(in))
	for i, c := range in {
		c.Areas, c.Runtimes = cloneList(c.Areas), cloneList(c.Runtimes)
		c.Aggregate = cleanAggregate(c.Aggregate)
		c.Pending = cleanResources(c.Pending)
		c.Same = max(0, c.Same)
		out[i] = c
	}
	slices.SortStableFunc(out, func(a, b ClusterView) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// cleanWorkers returns a deep copy in the order of ids.
func cleanWorkers(in []WorkerView) []WorkerView {
	out := make([]WorkerView, len(in))
	for i, w := range in {
		w.Runtimes = cloneList(w.Runtimes)
		w.Capacity, w.Used = cleanResources(w.Capacity), cleanResources(w.Used)
		w.Same = max(0, w.Same)
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
