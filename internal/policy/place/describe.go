package place

import (
	"cmp"
	"maps"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of what is passed on of a worker's description of itself.
const (
	maxArchitectures = 16
	maxArchLength    = 20
)

// Describe adds a description of the ready workers to an aggregate: how many there are of
// each architecture, how many have each of the most frequent labels, how many devices of
// each type and model they have, and the disc and ball around their locations and
// coordinates. Its size does not depend on the number of workers. Invalid architectures,
// labels, locations and coordinates are left out.
func Describe(workers []WorkerView, a *wire.Aggregate) {
	type label struct{ key, value string }
	archs, labels, devices := map[string]int{}, map[label]int{}, map[string]int{}
	var points []api.Point
	var coords []*wire.Coordinate
	for i := range workers {
		w := &workers[i]
		if w.Suspect {
			continue
		}
		if n := len(w.Arch); n > 0 && n <= maxArchLength {
			archs[w.Arch]++
		}
		for _, d := range w.Devices {
			devices[d.Type+"/"+d.Model]++
		}
		for key, value := range w.Labels {
			labels[label{key, value}]++
		}
		if p := geo.CleanPoint(w.Location); p != nil {
			points = append(points, *p)
		}
		if c := geo.CleanCoord(w.Coord); c != nil {
			coords = append(coords, c)
		}
	}
	for l := range labels {
		if api.LabelProblem(l.key, l.value) != "" {
			delete(labels, l)
		}
	}
	var more bool
	a.Architectures, _ = most(archs, maxArchitectures, func(s string) string { return s })
	a.Labels, more = most(labels, wire.MaxLabels, func(l label) string { return labelPair(l.key, l.value) })
	a.MoreLabels = more
	a.Devices, a.MoreDevices = most(devices, wire.MaxModels, func(s string) string { return s })
	a.Disc, a.Around = geo.Disc(points), geo.Around(coords)
}

// most keeps the n most frequent by name, on ties those first by name; more says
// whether there were others.
func most[K comparable](counts map[K]int, n int, name func(K) string) (kept map[string]int, more bool) {
	if len(counts) == 0 {
		return nil, false
	}
	type entry struct {
		name  string
		count int
	}
	all := make([]entry, 0, len(counts))
	for k, c := range counts {
		all = append(all, entry{name(k), c})
	}
	slices.SortFunc(all,
		func(a, b entry) int { return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.name, b.name)) })
	kept = map[string]int{}
	for _, e := range all[:min(n, len(all))] {
		kept[e.name] = e.count
	}
	return kept, len(all) > n
}

// SameDescription says whether two aggregates describe the workers alike, as far as a
// difference requires an early report.
func SameDescription(a, b *wire.Aggregate) bool {
	return maps.Equal(a.Architectures, b.Architectures) && maps.Equal(a.Labels, b.Labels) &&
		a.MoreLabels == b.MoreLabels &&
		maps.Equal(a.Devices, b.Devices) && a.MoreDevices == b.MoreDevices &&
		(a.Disc == nil) == (b.Disc == nil) && (a.Disc == nil || *a.Disc == *b.Disc)
}
