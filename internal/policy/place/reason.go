package place

import (
	"fmt"
	"slices"
	"strings"
)

// Filters of RankClusters, in their order.
const (
	passed     = -1
	fConnected = iota - 1
	fCluster
	fArea
	fRuntime
	fWorkers
	fRefused
	fFirstResource
	clusterFilters = fFirstResource + resources
)

// Filters of Schedule, in their order.
const (
	fSuspect = iota
	fWorkerRuntime
	fAvoid
	fFirstWorkerResource
	workerFilters = fFirstWorkerResource + resources
)

// removal is why one candidate went. Words are made of it only for the one
// that becomes the example of its filter, so that removing costs nothing.
type removal struct {
	filter int
	free   int64 // of the resource that was short, or suspect workers
	total  bool  // free is what the whole cluster has, not its largest worker
	has    []string
	note   string
}

// sieve counts removals and keeps one example per filter: of those short of a
// resource the one that came closest, else the one with the smallest id. Both
// do not depend on the order in which candidates were looked at.
type sieve struct {
	req      *Request
	clusters bool
	tally    []tally
}

type tally struct {
	removed int
	id      string
	example removal
}

func newSieve(filters int, req *Request) *sieve {
	return &sieve{req: req, clusters: filters == clusterFilters, tally: make([]tally, filters)}
}

func (s *sieve) remove(r removal, id string) {
	t := &s.tally[r.filter]
	t.removed++
	closer := s.resource(r.filter) >= 0 && r.free != t.example.free
	if t.removed == 1 || closer && r.free > t.example.free || !closer && id < t.id {
		t.id, t.example = id, r
	}
}

// resource is the index of the resource that filter f is about, or -1.
func (s *sieve) resource(f int) int {
	first := fFirstWorkerResource
	if s.clusters {
		first = fFirstResource
	}
	return max(-1, f-first)
}

// filters lists, in order, those that removed something.
func (s *sieve) filters() []Filter {
	var out []Filter
	for f := range s.tally {
		if t := &s.tally[f]; t.removed > 0 {
			w := s.words(f)
			out = append(out, Filter{Name: w.name, Removed: t.removed, Example: t.id + ": " + w.example})
		}
	}
	return out
}

// clusterReason says in words why not all replicas have a cluster.
func (s *sieve) clusterReason(candidates, feasible, placed int) string {
	if candidates == 0 {
		return "no cluster has joined yet"
	}
	phrases := s.phrases()
	if feasible > 0 {
		has := "have"
		if feasible == 1 {
			has = "has"
		}
		phrases = append(phrases, fmt.Sprintf("%d %s room for %d of %d", feasible, has, placed, s.req.Count))
	}
	return plural(candidates, "cluster") + ": " + strings.Join(phrases, ", ")
}

// workerReason says in words why no worker was chosen.
func (s *sieve) workerReason(candidates int) string {
	if candidates == 0 {
		return "no worker has joined yet"
	}
	return plural(candidates, "worker") + ": " + strings.Join(s.phrases(), ", ")
}

func (s *sieve) phrases() []string {
	var out []string
	for f := range s.tally {
		switch n := s.tally[f].removed; n {
		case 0:
		case 1:
			out = append(out, "1 "+s.words(f).one)
		default:
			out = append(out, fmt.Sprintf("%d %s", n, s.words(f).many))
		}
	}
	return out
}

// words of a filter: its name; what follows "edge-2: ", "1 " and "2 ".
type words struct{ name, example, one, many string }

func (s *sieve) words(f int) words {
	r := &s.tally[f].example
	if j := s.resource(f); j >= 0 {
		return s.shortage(resourceName(j), j, r)
	}
	if !s.clusters {
		switch f {
		case fSuspect:
			return words{"suspect", "suspect or cordoned", "is suspect or cordoned", "are suspect or cordoned"}
		case fWorkerRuntime:
			return s.lacks("runtime", "runtime", []string{s.req.Runtime}, r.has)
		default:
			return words{"avoid", "the instance failed or was lost there", "is avoided because the instance failed or was lost there", "are avoided because the instance failed or was lost there"}
		}
	}
	switch f {
	case fConnected:
		one := "is disconnected"
		if r.note != "disconnected" {
			one = r.note
		}
		return words{"connected", r.note, one, "are disconnected or have not reported yet"}
	case fCluster:
		want := oneOf(s.req.Affinity.Cluster)
		return words{"affinity.cluster", "is not " + want, "is not " + want, "are not " + want}
	case fArea:
		return s.lacks("affinity.area", "area", s.req.Affinity.Area, r.has)
	case fRuntime:
		return s.lacks("runtime", "runtime", []string{s.req.Runtime}, r.has)
	case fWorkers:
		why := "no ready worker"
		if r.free > 0 {
			why += fmt.Sprintf(" (%d suspect)", r.free)
		}
		return words{"workers", "has " + why, "has " + why, "have no ready worker"}
	default:
		return words{"refused", "refused lately: " + r.note, "refused lately (" + r.note + ")", "refused lately (" + r.note + ")"}
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
func (s *sieve) lacks(name, noun string, wanted, has []string) words {
	want := noun + " " + oneOf(wanted)
	what := "none"
	if len(has) > 0 {
		what = strings.Join(shorten(has), ", ")
	}
	one := fmt.Sprintf("lacks %s (has %s)", want, what)
	return words{name, one, one, "lack " + want}
}

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
