package oakestra

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/source"
)

// thresholds collects what constraints say of all of a service: Verge has one
// rigidness and one time for each service.
type thresholds struct {
	rigidness   *float64
	convergence *time.Duration
	differ      bool
}

func (t *thresholds) add(k *converter, c *source.Node, path []string) {
	if c.Child("rigidness") != nil {
		v := k.number(c, "rigidness", path)
		if v > 1 {
			k.refuse(source.Extend(path, "rigidness"), "is more than 1")
			return
		}
		t.differ = t.differ || t.rigidness != nil && *t.rigidness != v
		if t.rigidness == nil || v > *t.rigidness {
			t.rigidness = &v
		}
	}
	if c.Child("convergence_time") != nil {
		v := time.Duration(min(k.number(c, "convergence_time", path), 1e6) * float64(time.Second))
		t.differ = t.differ || t.convergence != nil && *t.convergence != v
		if t.convergence == nil || v < *t.convergence {
			t.convergence = &v
		}
	}
}

// apply writes them to a service for which they mean something.
func (t *thresholds) apply(k *converter, path []string, out *api.Service) {
	if len(out.Latency) == 0 && out.Location == nil {
		return
	}
	out.Rigidness = t.rigidness
	if t.convergence != nil {
		d := draft.Clamp(k.report, k.doc, path, *t.convergence, time.Millisecond, time.Hour)
		out.ConvergenceTime = &d
	}
	if t.differ {
		k.lost(path, "has several values of rigidness or convergence_time, and Verge one for each service: the "+
			"strictest")
	}
}

func (k *converter) constraints(s *source.Node, path []string, out *api.Service, t *thresholds) {
	list := s.Child("constraints")
	if list.Empty() {
		return
	}
	if list.Kind != source.List {
		k.refuse(source.Extend(path, "constraints"), "is not a list")
		return
	}
	for i, c := range list.Values {
		at := source.Extend(path, "constraints", source.Index(i))
		switch kind := c.Str("type"); kind {
		case "latency":
			k.nearUsers(c, at, out, t)
		case "geo":
			k.nearPlace(c, at, out, t)
		case "clusters":
			out.Affinity.Cluster = k.sites(c, at, "allowed", out.Affinity.Cluster)
		case "direct":
			out.Affinity.Cluster = k.sites(c, at, "cluster", out.Affinity.Cluster)
			if c.Str("node") != "" {
				k.lost(source.Extend(at, "node"), "is not carried over: workers are chosen by labels (affinity.labels)")
			}
		case "addons":
			k.lost(at, "is not carried over: label the workers that have what is needed, and write affinity.labels")
		default:
			k.lost(at, "is not carried over: %s is not a type of constraint", source.Quote(kind))
		}
	}
}

// sites adds names of clusters, written as one, as several with separators, or a list.
func (k *converter) sites(c *source.Node, path []string, field string, to []string) []string {
	v := c.Child(field)
	if v.Empty() {
		k.lost(path, "says no %s", field)
		return to
	}
	if v.Kind == source.Mapping {
		k.refuse(source.Extend(path, field), "is a mapping, and is to be a list of texts")
		return to
	}
	said := strings.FieldsFunc(v.Text, func(r rune) bool { return r == ';' || r == ',' || r == ' ' })
	for i, item := range v.Values {
		if item.Kind != source.Scalar || item.Value == nil {
			k.refuse(source.Extend(path, field, source.Index(i)), "is %s, and is to be a text", item.Describe())
			return to
		}
		said = append(said, item.Text)
	}
	for _, s := range said {
		name := draft.Label(s)
		if name != s {
			k.said(source.Extend(path, field), "%s is called %s", source.Quote(s), name)
		}
		if !slices.Contains(to, name) {
			to = append(to, name)
		}
	}
	return to
}

// nearUsers is a latency to the users of an area, or at a place.
func (k *converter) nearUsers(c *source.Node, path []string, out *api.Service, t *thresholds) {
	ms := k.number(c, "threshold", path)
	where := cmp.Or(c.Str("location"), c.Str("area"))
	if p, ok := k.point(where, path); ok {
		if a := c.Str("area"); a != "" && a != where {
			k.lost(source.Extend(path, "area"),
				"is not carried over: the place counts (location), and the service may go to other areas")
		}
		if d := k.millis(ms, path); d > 0 {
			out.Latency = append(out.Latency, api.Latency{To: p, Max: d})
			t.add(k, c, path)
		}
		return
	}
	if where == "" {
		k.lost(path, "is not carried over: it names no area")
		return
	}
	area := draft.Label(where)
	if !slices.Contains(out.Affinity.Area, area) {
		out.Affinity.Area = append(out.Affinity.Area, area)
	}
	k.lost(path, "the latency of %gms is not carried over: where the users of an area are Verge does not know. The "+
		"service goes to clusters of the area %s; latency takes a place (latitude,longitude) or an address of users",
		ms,
		area)
}

// millis is a latency in ms as Verge bounds it.
func (k *converter) millis(ms float64, path []string) api.Duration {
	if ms <= 0 || ms > 10_000 {
		k.lost(source.Extend(path, "threshold"), "is not carried over: a latency is more than 0 and at most 10 s")
		return 0
	}
	return max(api.Duration(ms*float64(time.Millisecond)), api.Duration(time.Microsecond))
}

// nearPlace is a circle around a place, in km. Of several the second and further ones
// are distances to a place.
func (k *converter) nearPlace(c *source.Node, path []string, out *api.Service, t *thresholds) {
	p, ok := k.point(c.Str("location"), path)
	km := k.number(c, "threshold", path)
	radius := api.Distance(math.Round(km * 1000))
	if !ok || radius < 1 || radius > api.MaxDistance {
		k.refuse(path, "is not a circle: it has a location (latitude,longitude) and a threshold in km")
		return
	}
	if c.Str("area") != "" {
		k.lost(source.Extend(path, "area"), "is not carried over: a constraint of type geo is about a location")
	}
	t.add(k, c, path)
	if out.Location == nil {
		lat, lon, _ := strings.Cut(p, ",")
		l := &api.Location{Radius: radius}
		// point has made sure that they are numbers.
		l.Latitude, _ = strconv.ParseFloat(lat, 64)
		l.Longitude, _ = strconv.ParseFloat(lon, 64)
		out.Location = l
		return
	}
	out.Latency = append(out.Latency, api.Latency{To: p, Distance: radius})
}

// point reads a place: with a comma it is latitude,longitude, as Oakestra's schedulers
// read it, with a semicolon longitude;latitude, as its documentation has it.
func (k *converter) point(s string, path []string) (string, bool) {
	lat, lon, ok := strings.Cut(s, ",")
	if !ok {
		if lon, lat, ok = strings.Cut(s, ";"); ok {
			k.said(path, "%s is taken for longitude;latitude, as Oakestra's documentation has it", source.Quote(s))
		}
	}
	lat, lon = strings.Trim(lat, " ()"), strings.Trim(lon, " ()")
	y, err1 := strconv.ParseFloat(lat, 64)
	x, err2 := strconv.ParseFloat(lon, 64)
	if !ok || err1 != nil || err2 != nil || !(y >= -90 && y <= 90 && x >= -180 && x <= 180) {
		return "", false
	}
	return strconv.FormatFloat(y, 'f', -1, 64) + "," + strconv.FormatFloat(x, 'f', -1, 64), true
}

// connectivity are thresholds to other microservices.
func (k *converter) connectivity(s *source.Node, path []string, name string, ids map[string]string, out *api.Service,
	t *thresholds) {
	list := s.Child("connectivity")
	if list.Empty() {
		return
	}
	if list.Kind != source.List {
		k.refuse(source.Extend(path, "connectivity"), "is not a list")
		return
	}
	for i, c := range list.Values {
		at := source.Extend(path, "connectivity", source.Index(i))
		id := c.Str("target_microservice_id")
		cons := c.Child("con_constraints")
		target, ok := ids[id]
		switch {
		case cons.Empty():
			continue // that services reach each other need not be said
		case cons.Kind != source.List:
			k.refuse(source.Extend(at, "con_constraints"), "is not a list")
			continue
		case !ok:
			k.lost(source.Extend(at, "target_microservice_id"),
				"is not carried over: %s is not a microservice of this application",
				source.Quote(id))
			continue
		case target == name:
			k.lost(source.Extend(at, "target_microservice_id"), "is not carried over: it is the microservice itself")
			continue
		}
		for j, con := range cons.Values {
			k.connection(con, source.Extend(at, "con_constraints", source.Index(j)), target, out, t)
		}
	}
}

func (k *converter) connection(con *source.Node, path []string, target string, out *api.Service, t *thresholds) {
	l := api.Latency{To: target}
	switch kind := con.Str("type"); kind {
	case "latency":
		l.Max = k.millis(k.number(con, "threshold", path), path)
	case "geo":
		l.Distance = api.Distance(math.Round(k.number(con, "threshold", path) * 1000))
	case "bandwidth":
		k.lost(path, "is not carried over: bandwidth is reserved of the worker's connection (resources.bandwidth), "+
			"not between two services")
		return
	default:
		k.lost(path, "is not carried over: %s is not a type of constraint", source.Quote(kind))
		return
	}
	if l.Max == 0 && l.Distance == 0 {
		return
	}
	t.add(k, con, path)
	for i := range out.Latency {
		if o := &out.Latency[i]; o.To == target {
			if l.Max > 0 && (o.Max == 0 || l.Max < o.Max) {
				o.Max = l.Max
			}
			if l.Distance > 0 && (o.Distance == 0 || l.Distance < o.Distance) {
				o.Distance = l.Distance
			}
			return
		}
	}
	out.Latency = append(out.Latency, l)
}
