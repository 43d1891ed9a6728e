package descriptor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/words"
)

// placement checks where a service may run: names, labels and shapes, and that
// what is wanted is not excluded.
func (v *validator) placement(path string, s *api.Service) {
	in := func(field string) string { return path + "." + field }
	v.sites(in("affinity.cluster"), s.Affinity.Cluster, nil)
	v.sites(in("affinity.area"), s.Affinity.Area, nil)
	v.sites(in("anti_affinity.cluster"), s.AntiAffinity.Cluster, s.Affinity.Cluster)
	v.sites(in("anti_affinity.area"), s.AntiAffinity.Area, s.Affinity.Area)
	v.labels(in("affinity.labels"), s.Affinity.Labels, nil)
	v.labels(in("anti_affinity.labels"), s.AntiAffinity.Labels, s.Affinity.Labels)
	v.neighbours(in("anti_affinity.service"), s.AntiAffinity.Service)
	v.distinct(in("architecture"), s.Architecture)
	switch {
	case s.Scheduler == "plugin" && s.Plugin == "" && !v.spoiled(in("plugin")):
		v.complain(in("scheduler"), "says plugin, and which one is missing", "write plugin: NAME beside it")
	case s.Scheduler != "plugin" && s.Plugin != "" && !v.spoiled(in("scheduler")):
		v.complain(in("plugin"), "means nothing without scheduler: plugin", "write scheduler: plugin beside it, or remove it")
	}
	if p := in("location"); s.Location != nil {
		for _, field := range []struct{ name, example string }{{"latitude", "48.14"}, {"longitude", "11.58"},
			{"radius", "20km"}} {
			if _, given := v.seen[p+"."+field.name]; !given {
				v.complain(p+"."+field.name, "is missing: a location is a point and a radius",
					"write "+field.name+": "+field.example)
			}
		}
	}
	v.polygon(in("affinity.polygon"), s.Affinity.Polygon)
	v.latencies(in("latency"), strings.TrimPrefix(path, "services."), s)
	v.data(in("data"), s.Data)
}

// sites are names of clusters or areas; wanted has those of the affinity that
// excludes would contradict.
func (v *validator) sites(path string, names, wanted []string) {
	both := map[string]bool{}
	for _, name := range wanted {
		both[name] = true
	}
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case !siteRE().MatchString(name) || len(name) > api.MaxNameLength:
			v.complain(at, words.Quote(name)+" is not a name", "use small letters, digits and -, at most 63")
		case both[name]:
			v.complain(at, words.Quote(name)+" is also in affinity", "it cannot be wanted and excluded: remove one of them")
		}
	}
	v.distinct(path, names)
}

func (v *validator) labels(path string, labels, wanted map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		at := where{path: path}.entry(key).path
		value, both := wanted[key]
		switch problem := api.LabelProblem(key, labels[key]); {
		case v.spoiled(at):
		case problem != "":
			v.fail(v.keyAt(at), at, problem, "")
		case both && value == labels[key]:
			v.complain(at, "is also in affinity", "it cannot be wanted and excluded: remove one of them")
		}
	}
}

// neighbours are services of the application that keep others from a worker.
func (v *validator) neighbours(path string, names []string) {
	for i, name := range names {
		v.sibling(fmt.Sprintf("%s[%d]", path, i), name)
	}
	v.distinct(path, names)
}

// sibling is a service of the application.
func (v *validator) sibling(path, name string) {
	if _, exists := v.app.Services[name]; exists || v.full() {
		return
	}
	known := v.app.ServiceNames()
	remedy := "there is " + words.Either(known)
	if near := nearest(name, known); near != "" {
		remedy = "did you mean " + near + "?"
	}
	v.complain(path, words.Quote(name)+" is not a service of this application", remedy)
}

// polygon checks that the corners enclose an area, and one only.
func (v *validator) polygon(path string, corners []api.Point) {
	n := len(corners)
	switch {
	case n == 0 || v.spoiled(path):
		return
	case n < 3:
		v.complain(path, fmt.Sprintf("has %d corners, an area has at least 3", n),
			"write [[latitude, longitude], …], or location for a circle")
		return
	}
	const remedy = "list the corners in the order in which one walks around the area"
	for i, p := range corners {
		q := corners[(i+1)%n]
		if p == q {
			v.complain(fmt.Sprintf("%s[%d]", path, (i+1)%n), "is the same corner again", "remove one of them")
			return
		}
		if d := p[1] - q[1]; d > 180 || d < -180 {
			v.complain(path, "crosses the 180th meridian", "divide the area there, and make a service of each part")
			return
		}
	}
	for i := range n {
		for j := i + 1; j < n; j++ {
			if sidesMeet(corners, i, j) {
				v.complain(path, fmt.Sprintf("side %d meets side %d", i+1, j+1), remedy)
				return
			}
		}
	}
}

// sidesMeet says whether the sides i < j, each from its corner to the next, have
// a point in common that they need not: neighbours share a corner, and may not
// lie on each other.
func sidesMeet(corners []api.Point, i, j int) bool {
	n := len(corners)
	a, b, c, d := corners[i], corners[i+1], corners[j], corners[(j+1)%n]
	switch {
	case j == i+1: // b is c
		return turn(a, b, d) == 0 && !between(a, d, b)
	case (j+1)%n == i: // d is a
		return turn(c, a, b) == 0 && !between(c, b, a)
	}
	abc, abd, cda, cdb := turn(a, b, c), turn(a, b, d), turn(c, d, a), turn(c, d, b)
	if abc*abd < 0 && cda*cdb < 0 {
		return true
	}
	return abc == 0 && between(a, b, c) || abd == 0 && between(a, b, d) ||
		cda == 0 && between(c, d, a) || cdb == 0 && between(c, d, b)
}

// turn is positive where the way from a by b to c turns left, zero where it goes
// straight.
func turn(a, b, c api.Point) float64 {
	switch x := (b[1]-a[1])*(c[0]-a[0]) - (b[0]-a[0])*(c[1]-a[1]); {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// between says whether p, which is on the line through a and b, is on the stretch
// from a to b.
func between(a, b, p api.Point) bool {
	return min(a[0], b[0]) <= p[0] && p[0] <= max(a[0], b[0]) && min(a[1], b[1]) <= p[1] && p[1] <= max(a[1], b[1])
}
