package importer

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
)

// thresholds collects what constraints say of all of a service: Verge has one
// rigidness and one time for each service.
type thresholds struct {
	rigidness   *float64
	convergence *time.Duration
	differ      bool
}

func (t *thresholds) add(k *oakestra, c *node, path []string) {
	if c.child("rigidness") != nil {
		v := k.number(c, "rigidness", path)
		if v > 1 {
			k.refuse(extend(path, "rigidness"), "is more than 1")
			return
		}
		t.differ = t.differ || t.rigidness != nil && *t.rigidness != v
		if t.rigidness == nil || v > *t.rigidness {
			t.rigidness = &v
		}
	}
	if c.child("convergence_time") != nil {
		v := time.Duration(min(k.number(c, "convergence_time", path), 1e6) * float64(time.Second))
		t.differ = t.differ || t.convergence != nil && *t.convergence != v
		if t.convergence == nil || v < *t.convergence {
			t.convergence = &v
		}
	}
}

// apply writes them to a service for which they mean something.
func (t *thresholds) apply(k *oakestra, path []string, out *api.Service) {
	if len(out.Latency) == 0 && out.Location == nil {
		return
	}
	out.Rigidness = t.rigidness
	if t.convergence != nil {
		d := clamp(k.report, k.doc, path, *t.convergence, time.Millisecond, time.Hour)
		out.ConvergenceTime = &d
	}
	if t.differ {
		k.lost(path, "has several values of rigidness or convergence_time, and Verge one for each service: the strictest")
	}
}

func (k *oakestra) constraints(s *node, path []string, out *api.Service, t *thresholds) {
	list := s.child("constraints")
	if list.empty() {
		return
	}
	if list.kind != listKind {
		k.refuse(extend(path, "constraints"), "is no list")
		return
	}
	for i, c := range list.values {
		at := extend(path, "constraints", index(i))
		switch kind := c.str("type"); kind {
		case "latency":
			k.nearUsers(c, at, out, t)
		case "geo":
			k.nearPlace(c, at, out, t)
		case "clusters":
			out.Affinity.Cluster = k.sites(c, at, "allowed", out.Affinity.Cluster)
		case "direct":
			out.Affinity.Cluster = k.sites(c, at, "cluster", out.Affinity.Cluster)
			if c.str("node") != "" {
				k.lost(extend(at, "node"), "is not carried over: workers are chosen by labels (affinity.labels)")
			}
		case "addons":
			k.lost(at, "is not carried over: label the workers that have what is needed, and write affinity.labels")
		default:
			k.lost(at, "is not carried over: %s is not a type of constraint", quote(kind))
		}
	}
}

// sites adds names of clusters, written as one, as several with separators, or a list.
func (k *oakestra) sites(c *node, path []string, field string, to []string) []string {
	v := c.child(field)
	if v.empty() {
		k.lost(path, "says no %s", field)
		return to
	}
	if v.kind == mappingKind {
		k.refuse(extend(path, field), "is a mapping, and is to be a list of texts")
		return to
	}
	said := strings.FieldsFunc(v.text, func(r rune) bool { return r == ';' || r == ',' || r == ' ' })
	for i, item := range v.values {
		if item.kind != scalarKind || item.value == nil {
			k.refuse(extend(path, field, index(i)), "is %s, and is to be a text", item.shape())
			return to
		}
		said = append(said, item.text)
	}
	for _, s := range said {
		name := label(s)
		if name != s {
			k.said(extend(path, field), "%s is called %s", quote(s), name)
		}
		if !slices.Contains(to, name) {
			to = append(to, name)
		}
	}
	return to
}

// nearUsers is a latency to the users of an area, or at a place.
func (k *oakestra) nearUsers(c *node, path []string, out *api.Service, t *thresholds) {
	ms := k.number(c, "threshold", path)
	where := cmp.Or(c.str("location"), c.str("area"))
	if p, ok := k.point(where, path); ok {
		if a := c.str("area"); a != "" && a != where {
			k.lost(extend(path, "area"), "is not carried over: the place counts (location), and the service may go to other areas")
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
	area := label(where)
	if !slices.Contains(out.Affinity.Area, area) {
		out.Affinity.Area = append(out.Affinity.Area, area)
	}
	k.lost(path, "the latency of %gms is not carried over: where the users of an area are Verge does not know. The service goes to clusters of the area %s; latency takes a place (latitude,longitude) or an address of users", ms, area)
}

// millis is a latency in ms as Verge bounds it.
func (k *oakestra) millis(ms float64, path []string) api.Duration {
	if ms <= 0 || ms > 10_000 {
		k.lost(extend(path, "threshold"), "is not carried over: a latency is more than 0 and at most 10 s")
		return 0
	}
	return max(api.Duration(ms*float64(time.Millisecond)), api.Duration(time.Microsecond))
}

// nearPlace is a circle around a place, in km. Of several the second and further ones
// are distances to a place.
func (k *oakestra) nearPlace(c *node, path []string, out *api.Service, t *thresholds) {
	p, ok := k.point(c.str("location"), path)
	km := k.number(c, "threshold", path)
	radius := api.Distance(math.Round(km * 1000))
	if !ok || radius < 1 || radius > api.MaxDistance {
		k.refuse(path, "is no circle: it has a location (latitude,longitude) and a threshold in km")
		return
	}
	if c.str("area") != "" {
		k.lost(extend(path, "area"), "is not carried over: a constraint of type geo is about a location")
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
func (k *oakestra) point(s string, path []string) (string, bool) {
	lat, lon, ok := strings.Cut(s, ",")
	if !ok {
		if lon, lat, ok = strings.Cut(s, ";"); ok {
			k.said(path, "%s is taken for longitude;latitude, as Oakestra's documentation has it", quote(s))
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
func (k *oakestra) connectivity(s *node, path []string, name string, ids map[string]string, out *api.Service, t *thresholds) {
	list := s.child("connectivity")
	if list.empty() {
		return
	}
	if list.kind != listKind {
		k.refuse(extend(path, "connectivity"), "is no list")
		return
	}
	for i, c := range list.values {
		at := extend(path, "connectivity", index(i))
		id := c.str("target_microservice_id")
		cons := c.child("con_constraints")
		target, ok := ids[id]
		switch {
		case cons.empty():
			continue // that services reach each other need not be said
		case cons.kind != listKind:
			k.refuse(extend(at, "con_constraints"), "is no list")
			continue
		case !ok:
			k.lost(extend(at, "target_microservice_id"), "is not carried over: %s is no microservice of this application", quote(id))
			continue
		case target == name:
			k.lost(extend(at, "target_microservice_id"), "is not carried over: it is the microservice itself")
			continue
		}
		for j, con := range cons.values {
			k.connection(con, extend(at, "con_constraints", index(j)), target, out, t)
		}
	}
}

func (k *oakestra) connection(con *node, path []string, target string, out *api.Service, t *thresholds) {
	l := api.Latency{To: target}
	switch kind := con.str("type"); kind {
	case "latency":
		l.Max = k.millis(k.number(con, "threshold", path), path)
	case "geo":
		l.Distance = api.Distance(math.Round(k.number(con, "threshold", path) * 1000))
	case "bandwidth":
		k.lost(path, "is not carried over: bandwidth is reserved of the worker's connection (resources.bandwidth), not between two services")
		return
	default:
		k.lost(path, "is not carried over: %s is not a type of constraint", quote(kind))
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
