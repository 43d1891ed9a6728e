package place

import (
	"fmt"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/policy/place/phrase"
)

// Filters of Schedule, in their order.
const (
	fSuspect = iota
	fWorkerCordoned
	fPinned
	fWorkerRuntime
	fWorkerArch
	fWorkerLabels
	fWorkerLocation
	fWorkerPolygon
	fWorkerAntiLabels
	fConflicts
	fVolumes
	fHostUser
	fWorkerDevices
	fOverlay
	fAvoid
	fWorkerLatency
	fWorkerDistance
	fTaken
	fFirstWorkerResource
	// The plugin's answer comes last.
	fRejected     = fFirstWorkerResource + amount.Kinds
	fUnranked     = fRejected + 1
	workerFilters = fUnranked + 1
)

// FailedBecause precedes, in the reason of a decision, why the instance failed where it was
// tried.
const FailedBecause = "; it failed because: "

// ForClients reduces the Reason of a decision to what clients of a service without placed
// instances may learn: what it lacks, and nothing of what there is.
func ForClients(reason string) string {
	const needs = ": needs "
	switch at := strings.Index(reason, needs); {
	case reason == "":
		return ""
	case strings.Contains(reason, FailedBecause):
		return "its instances failed wherever they were tried"
	case at >= 0:
		what, _, _ := strings.Cut(reason[at+len(needs):], ",")
		return "there is no room for an instance, which needs " + what
	}
	return "no worker is as its instances need it"
}

// filterLog counts removals and keeps one example per filter: for a resource the candidate
// that came closest, else the one with the smallest id. Neither depends on the order of the
// candidates.
type filterLog struct {
	req      *Request
	clusters bool
	counts   []filterCount
}

type filterCount struct {
	removed int
	id      string
	example removal
}

// newFilterLog returns an empty log for the filters of clusters or of workers.
func newFilterLog(clusters bool, req *Request) *filterLog {
	filters := workerFilters
	if clusters {
		filters = clusterFilters
	}
	return &filterLog{req: req, clusters: clusters, counts: make([]filterCount, filters)}
}

func (s *filterLog) remove(r removal, id string) {
	t := &s.counts[r.filter]
	t.removed++
	closer := s.resource(r.filter) >= 0 && r.free != t.example.free
	if t.removed == 1 || closer && r.free > t.example.free || !closer && id < t.id {
		t.id, t.example = id, r
	}
}

// resource returns the index of the resource of filter f, or -1.
func (s *filterLog) resource(f int) int {
	first := fFirstWorkerResource
	if s.clusters {
		first = fFirstResource
	}
	if f >= first+amount.Kinds {
		return -1
	}
	return max(-1, f-first)
}

// filters lists, in order, the filters that removed something.
func (s *filterLog) filters() []Filter {
	var out []Filter
	for f := range s.counts {
		if t := &s.counts[f]; t.removed > 0 {
			w := s.words(f)
			out = append(out, Filter{Name: w.name, Removed: t.removed, Example: t.id + ": " + w.example})
		}
	}
	return out
}

// clusterReason says in words why not all replicas have a cluster.
func (s *filterLog) clusterReason(candidates, feasible, placed int) string {
	if candidates == 0 {
		return "no cluster has joined yet"
	}
	if want := s.req.Affinity.Cluster; s.counts[fCluster].removed == candidates {
		if len(want) == 1 {
			return "cluster " + want[0] + " does not exist"
		}
		return "none of the clusters " + strings.Join(want, ", ") + " exists"
	}
	phrases := s.phrases()
	if feasible > 0 {
		has := "have"
		if feasible == 1 {
			has = "has"
		}
		phrases = append(phrases, fmt.Sprintf("%d %s room for %d of %d", feasible, has, placed, s.req.Count))
	}
	return phrase.Plural(candidates, "cluster") + ": " + strings.Join(phrases, ", ")
}

// workerReason says in words why no worker was chosen.
func (s *filterLog) workerReason(candidates int) string {
	if candidates == 0 {
		return "no worker has joined yet"
	}
	return phrase.Plural(candidates, "worker") + ": " + strings.Join(s.phrases(), ", ")
}

func (s *filterLog) phrases() []string {
	var out []string
	for f := range s.counts {
		switch n := s.counts[f].removed; n {
		case 0:
		case 1:
			out = append(out, "1 "+s.words(f).one)
		default:
			out = append(out, fmt.Sprintf("%d %s", n, s.words(f).many))
		}
	}
	return out
}

// latencyWords describes a worker whose round trip is too long.
func (s *filterLog) latencyWords(r *removal) words {
	t := &s.req.Latency[r.far.which]
	most := fmt.Sprintf("%s of %s", t.Max, t.To)
	one := fmt.Sprintf("is not within %s: %s away", most, phrase.Milliseconds(r.far.rtt))
	switch {
	case r.far.rtt < 0:
		one = "is not known to be within " + most + t.because()
	case r.far.may:
		one = fmt.Sprintf("is not known to be within %s: up to %s away by coordinates, in another cluster", most,
			phrase.Milliseconds(r.far.rtt))
	}
	return words{"latency", one, one, "are not known to be within " + most + t.because()}
}

func (t *Threshold) because() string {
	if t.Unknown == "" {
		return ""
	}
	return " (" + t.Unknown + ")"
}

// distanceWords describes a worker that is too far away on the Earth.
func (s *filterLog) distanceWords(r *removal) words {
	t := &s.req.Latency[r.far.which]
	most := fmt.Sprintf("%s of %s", t.Distance, t.To)
	one := fmt.Sprintf("is not within %s: %s km away", most, phrase.Tenths(r.far.km))
	switch {
	case r.far.km < 0:
		one = "is not known to be within " + most
	case r.far.may:
		one = fmt.Sprintf("is not known to be within %s: up to %s km away, in another cluster", most, phrase.Tenths(r.far.km))
	case t.somewhere():
		one = fmt.Sprintf("is not within %s: up to %s km away", most, phrase.Tenths(r.far.km))
	}
	return words{"distance", one, one, "are not known to be within " + most}
}

// reachWords describes a cluster that is proven to be too far away.
func (s *filterLog) reachWords(f int, r *removal) words {
	t := &s.req.Latency[r.far.which]
	name, most := "latency", fmt.Sprintf("%s of %s", t.Max, t.To)
	if f == fDistance {
		name, most = "distance", fmt.Sprintf("%s of %s", t.Distance, t.To)
	}
	one := "has no worker that knows its location, which is to be within " + most
	if r.far.km >= 0 {
		one = fmt.Sprintf("has no worker within %s: the nearest may be %s km away", most, phrase.TenthsDown(r.far.km))
		if f == fLatency {
			one += ", at least " + phrase.Milliseconds(r.far.rtt)
		}
	}
	return words{name, one, one, "have no worker within " + most}
}

// words of a filter: its name; what follows "edge-2: ", "1 " and "2 ".
type words struct{ name, example, one, many string }

func (s *filterLog) words(f int) words {
	r := &s.counts[f].example
	if j := s.resource(f); j >= 0 {
		return s.shortage(amount.Name(j), j, r)
	}
	if s.clusters {
		return s.clusterWords(f, r)
	}
	return s.workerWords(f, r)
}

func (s *filterLog) clusterWords(f int, r *removal) words {
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
		want := phrase.OneOf(s.req.Affinity.Cluster)
		return words{"affinity.cluster", "is not " + want, "is not " + want, "are not " + want}
	case fArea:
		return lacks("affinity.area", "area", s.req.Affinity.Area, r.has)
	case fAntiCluster:
		return words{"anti_affinity.cluster", "is excluded by name", "is excluded by name", "are excluded by name"}
	case fAntiArea:
		one := "has area " + strings.Join(phrase.Shorten(r.has), ", ") + ", which is excluded"
		return words{"anti_affinity.area", one, one, "have an area that is excluded (" + phrase.OneOf(s.req.AntiAffinity.Area) + ")"}
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
		one := "has an instance on each of its " + phrase.Plural(int(r.free), "worker")
		return words{"anti_affinity.service", one, one, "have an instance on each of their workers"}
	case fLatency, fDistance:
		return s.reachWords(f, r)
	case fDevices:
		return words{"devices", r.note, r.note, "have not the devices asked for"}
	default:
		return words{"refused", "refused lately: " + r.note, "refused lately (" + r.note + ")",
			"refused lately (" + r.note + ")"}
	}
}

func (s *filterLog) workerWords(f int, r *removal) words {
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
		return words{"anti_affinity.labels", one, one,
			"have a label that is excluded (" + phrase.OneOf(pairs(s.req.AntiAffinity.Labels)) + ")"}
	case fConflicts:
		if slices.ContainsFunc(r.has, isPort) {
			const why = "without the service network the instances of a worker share its ports"
			taken := strings.Join(phrase.Shorten(r.has), ", ")
			one := "has " + taken + ": " + why
			return words{"ports", one, one, "have a port of the same number (" + taken + "): " + why}
		}
		one := "runs " + strings.Join(phrase.Shorten(r.has), ", ") + ", which is kept apart from it"
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
		return words{"ranking", "not ranked by plugin " + s.req.Plugin, "is not ranked by plugin " + s.req.Plugin,
			"are not ranked by plugin " + s.req.Plugin}
	case fOverlay:
		need := ", which " + r.note + " needs"
		return words{"network", "is not part of the service network" + need, "is not part of the service network" + need,
			"are not part of the service network" + need}
	case fWorkerLatency:
		return s.latencyWords(r)
	case fWorkerDistance:
		return s.distanceWords(r)
	default:
		return words{"avoid", "the instance failed or was lost there",
			"is avoided because the instance failed or was lost there",
			"are avoided because the instance failed or was lost there"}
	}
}

func (s *filterLog) shortage(name string, j int, r *removal) words {
	why := fmt.Sprintf("needs %s %s, ", amount.Needed(j, amount.ToVec(s.req.Demand)[j]), name)
	free := amount.Available(j, r.free)
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

// lacks describes a requirement that nothing a candidate has fulfils.
func lacks(name, noun string, wanted, has []string) words {
	want := noun + " " + phrase.OneOf(wanted)
	what := "none"
	if len(has) > 0 {
		what = strings.Join(phrase.Shorten(has), ", ")
	}
	one := fmt.Sprintf("lacks %s (has %s)", want, what)
	return words{name, one, one, "lack " + want}
}

func (s *filterLog) lacksLabel(r *removal) words {
	pair := labelPair(r.note, s.req.Affinity.Labels[r.note])
	one, many := "lacks label "+pair, "lack label "+pair
	if all := pairs(s.req.Affinity.Labels); len(all) > 1 {
		many = "lack one of the labels " + strings.Join(phrase.Shorten(all), ", ")
	}
	return words{"affinity.labels", one, one, many}
}

// away describes a location that is too far away, or unknown.
func (s *filterLog) away(r *removal, unknown, are string) words {
	l := s.req.Location
	most := fmt.Sprintf("%s of %s", l.Radius, geo.Center(l))
	one := unknown
	if r.point != nil {
		one = fmt.Sprintf("is not within %s: %s km away", most, phrase.Tenths(r.km))
	}
	return words{"location", one, one, are + " not known to be within " + most}
}

func outside(r *removal, unknown, one, many string) words {
	if r.point == nil {
		one = unknown
	}
	return words{"affinity.polygon", one, one, many}
}

// pairs returns labels as "key=value", sorted.
func pairs(labels map[string]string) []string {
	var out []string
	for _, key := range sortedKeys(labels) {
		out = append(out, labelPair(key, labels[key]))
	}
	return out
}

// portWord begins a conflict about a port; service names have no spaces.
const portWord = "port "

// PortTaken returns the entry of WorkerView.Conflicts for a port number that both the
// service to be placed and one on the worker name.
func PortTaken(port int, service string) string {
	return fmt.Sprintf("%s%d of %s", portWord, port, service)
}

func isPort(conflict string) bool { return strings.HasPrefix(conflict, portWord) }
