package place

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// words of a filter: its name; what follows "edge-2: ", "1 " and "2 ".
type words struct{ name, example, one, many string }

func (s *sieve) words(f int) words {
	r := &s.tally[f].example
	if j := s.resource(f); j >= 0 {
		return s.shortage(resourceName(j), j, r)
	}
	if s.clusters {
		return s.clusterWords(f, r)
	}
	return s.workerWords(f, r)
}

func (s *sieve) clusterWords(f int, r *removal) words {
	switch f {
	case fConnected:
		one := "is disconnected"
		if r.note != "disconnected" {
			one = r.note
		}
		return words{"connected", r.note, one, "are disconnected or have not reported yet"}
	case fCordoned:
		return words{"cordoned", "cordoned", "is cordoned", "are cordoned"}
	case fCluster:
		want := oneOf(s.req.Affinity.Cluster)
		return words{"affinity.cluster", "is not " + want, "is not " + want, "are not " + want}
	case fArea:
		return lacks("affinity.area", "area", s.req.Affinity.Area, r.has)
	case fAntiCluster:
		return words{"anti_affinity.cluster", "is excluded by name", "is excluded by name", "are excluded by name"}
	case fAntiArea:
		one := "has area " + strings.Join(shorten(r.has), ", ") + ", which is excluded"
		return words{"anti_affinity.area", one, one, "have an area that is excluded (" + oneOf(s.req.AntiAffinity.Area) + ")"}
	case fRuntime:
		return lacks("runtime", "runtime", []string{s.req.Runtime}, r.has)
	case fPlugin:
		return lacks("plugin", "plugin", []string{s.req.Plugin}, r.has)
	case fWorkers:
		why := "no ready worker"
		if r.note != "" {
			why += " (" + r.note + ")"
		}
		return words{"workers", "has " + why, "has " + why, "have no ready worker"}
	case fArch:
		return lacks("architecture", "architecture", s.req.Architecture, r.has)
	case fLabels:
		return s.lacksLabel(r)
	case fLocation:
		return s.away(r, "has no worker that knows its location", "have no worker")
	case fPolygon:
		return outside(r, "has no worker that knows its location", "has no worker in the area", "have no worker in the area")
	case fAntiLabels:
		one := "has label " + labelPair(r.note, s.req.AntiAffinity.Labels[r.note]) + " on every worker, which is excluded"
		return words{"anti_affinity.labels", one, one, "have a label that is excluded on every worker"}
	case fAntiService:
		one := "has an instance on each of its " + plural(int(r.free), "worker")
		return words{"anti_affinity.service", one, one, "have an instance on each of their workers"}
	case fLatency, fDistance:
		return s.reachWords(f, r)
	case fDevices:
		return words{"devices", r.note, r.note, "have not the devices asked for"}
	default:
		return words{"refused", "refused lately: " + r.note, "refused lately (" + r.note + ")", "refused lately (" + r.note + ")"}
	}
}

func (s *sieve) workerWords(f int, r *removal) words {
	switch f {
	case fSuspect:
		return words{"suspect", "suspect", "is suspect", "are suspect"}
	case fWorkerCordoned:
		return words{"cordoned", "cordoned", "is cordoned", "are cordoned"}
	case fPinned:
		why := "not " + s.req.Pinned + ", which has its volume"
		return words{"pinned", "is " + why, "is " + why, "are " + why}
	case fWorkerRuntime:
		return lacks("runtime", "runtime", []string{s.req.Runtime}, r.has)
	case fWorkerArch:
		return lacks("architecture", "architecture", s.req.Architecture, []string{r.note})
	case fWorkerLabels:
		return s.lacksLabel(r)
	case fWorkerLocation:
		return s.away(r, "does not know its location", "are")
	case fWorkerPolygon:
		return outside(r, "does not know its location", "is outside of the area", "are outside of the area")
	case fWorkerAntiLabels:
		one := "has label " + labelPair(r.note, s.req.AntiAffinity.Labels[r.note]) + ", which is excluded"
		return words{"anti_affinity.labels", one, one, "have a label that is excluded (" + oneOf(pairs(s.req.AntiAffinity.Labels)) + ")"}
	case fConflicts:
		if slices.ContainsFunc(r.has, isPort) {
			const why = "without the service network the instances of a worker share its ports"
			taken := strings.Join(shorten(r.has), ", ")
			one := "has " + taken + ": " + why
			return words{"ports", one, one, "have a port of the same number (" + taken + "): " + why}
		}
		one := "runs " + strings.Join(shorten(r.has), ", ") + ", which is kept apart from it"
		return words{"anti_affinity.service", one, one, "run a service that is kept apart from it"}
	case fVolumes:
		return words{"volumes", "host path " + r.note + " is not allowed there",
			"does not allow the host path " + r.note, "do not allow the host path " + r.note}
	case fHostUser:
		return words{"user", "user " + r.note + " is not allowed there",
			"does not allow the user " + r.note, "do not allow the user " + r.note}
	case fWorkerDevices:
		return words{"device types", r.note, r.note, "have not the devices asked for"}
	case fTaken:
		return words{"devices", r.note, "is full: " + r.note, "are full, for example: " + r.note}
	case fRejected:
		one := "is rejected by plugin " + s.req.Plugin
		example := "rejected by plugin " + s.req.Plugin
		if r.note != "" {
			one, example = one+": "+r.note, example+": "+r.note
		}
		return words{"plugin", example, one, "are rejected by plugin " + s.req.Plugin + " (" + r.note + ")"}
	case fUnranked:
		return words{"ranking", "not ranked by plugin " + s.req.Plugin, "is not ranked by plugin " + s.req.Plugin, "are not ranked by plugin " + s.req.Plugin}
	case fOverlay:
		need := ", which " + r.note + " needs"
		return words{"network", "is not part of the service network" + need, "is not part of the service network" + need, "are not part of the service network" + need}
	case fWorkerLatency:
		return s.latencyWords(r)
	case fWorkerDistance:
		return s.distanceWords(r)
	default:
		return words{"avoid", "the instance failed or was lost there", "is avoided because the instance failed or was lost there", "are avoided because the instance failed or was lost there"}
	}
}

func (s *sieve) shortage(name string, j int, r *removal) words {
	why := fmt.Sprintf("needs %s %s, ", needed(j, toVec(s.req.Demand)[j]), name)
	free := available(j, r.free)
	switch {
	case r.total:
		why += free + " left in all workers together"
	case s.clusters:
		why += "largest free " + free
	default:
		why += free + " free"
	}
	many := why
	if !s.clusters {
		many = strings.TrimSuffix(why, free+" free") + "largest free " + free
	}
	return words{name, why, "is full: " + why, "are full: " + many}
}

// lacks words a requirement that none of what a candidate has fulfils.
func lacks(name, noun string, wanted, has []string) words {
	want := noun + " " + oneOf(wanted)
	what := "none"
	if len(has) > 0 {
		what = strings.Join(shorten(has), ", ")
	}
	one := fmt.Sprintf("lacks %s (has %s)", want, what)
	return words{name, one, one, "lack " + want}
}

func (s *sieve) lacksLabel(r *removal) words {
	pair := labelPair(r.note, s.req.Affinity.Labels[r.note])
	one, many := "lacks label "+pair, "lack label "+pair
	if all := pairs(s.req.Affinity.Labels); len(all) > 1 {
		many = "lack one of the labels " + strings.Join(shorten(all), ", ")
	}
	return words{"affinity.labels", one, one, many}
}

// away words a location that is too far off, or unknown.
func (s *sieve) away(r *removal, unknown, are string) words {
	l := s.req.Location
	most := fmt.Sprintf("%s of %s", l.Radius, center(l))
	one := unknown
	if r.point != nil {
		one = fmt.Sprintf("is not within %s: %s km away", most, tenths(r.km))
	}
	return words{"location", one, one, are + " not known to be within " + most}
}

func outside(r *removal, unknown, one, many string) words {
	if r.point == nil {
		one = unknown
	}
	return words{"affinity.polygon", one, one, many}
}

// tenths writes kilometres, rounded up, so that what is too far never reads as if
// it were near enough.
func tenths(km float64) string {
	if km >= 100 {
		return fmt.Sprintf("%.0f", math.Ceil(km))
	}
	return fmt.Sprintf("%.1f", math.Ceil(km*10)/10)
}

// pairs are labels as "key=value", in order.
func pairs(labels map[string]string) []string {
	var out []string
	for _, key := range sortedKeys(labels) {
		out = append(out, labelPair(key, labels[key]))
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// oneOf writes "north", "north or east".
func oneOf(list []string) string { return strings.Join(shorten(list), " or ") }

// shorten bounds what a list of names adds to a sentence.
func shorten(list []string) []string {
	const most = 5
	if len(list) <= most {
		return list
	}
	return append(slices.Clone(list[:most]), fmt.Sprintf("%d more", len(list)-most))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// portWord begins a conflict about a port; no name of a service has a space.
const portWord = "port "

// PortTaken is what WorkerView.Conflicts says of a port whose number both the service to be
// placed and one that is there name.
func PortTaken(port int, service string) string {
	return fmt.Sprintf("%s%d of %s", portWord, port, service)
}

func isPort(conflict string) bool { return strings.HasPrefix(conflict, portWord) }
