package place

import (
	"fmt"
	"strings"

	"github.com/verge-edge/verge/api"
)

// passed is the filter of what none removed.
const passed = -1

// Filters of RankClusters, in their order.
const (
	fConnected = iota
	fCordoned
	fCluster
	fArea
	fAntiCluster
	fAntiArea
	fRuntime
	fPlugin
	fWorkers
	fDevices
	fArch
	fLabels
	fLocation
	fPolygon
	fAntiLabels
	fAntiService
	fLatency
	fDistance
	fRefused
	fFirstResource
	clusterFilters = fFirstResource + resources
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
	// What a plugin says is asked last.
	fRejected     = fFirstWorkerResource + resources
	fUnranked     = fRejected + 1
	workerFilters = fUnranked + 1
)

// removal is why one candidate went. Words are made of it only for the one
// that becomes the example of its filter, so that removing costs nothing.
type removal struct {
	filter int
	free   int64 // of the resource that was short, or suspect workers
	total  bool  // free is what the whole cluster has, not its largest worker
	has    []string
	note   string     // words, the key of a label, or a path
	point  *api.Point // of the worker, or the centre of the cluster's disc
	km     float64    // between point and the location asked for
	far    far        // how far off what it must be near
}

// FailedBecause stands in the reason of a decision before why the instance failed where it
// was tried.
const FailedBecause = "; it failed because: "

// ForClients is what may be told to whoever asks for a service of which nothing is
// placed, by the Reason of a decision: what it lacks, and nothing of what there is.
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

// newSieve counts for the filters of clusters, or those of workers.
func newSieve(clusters bool, req *Request) *sieve {
	filters := workerFilters
	if clusters {
		filters = clusterFilters
	}
	return &sieve{req: req, clusters: clusters, tally: make([]tally, filters)}
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
	if f >= first+resources {
		return -1
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
	if want := s.req.Affinity.Cluster; s.tally[fCluster].removed == candidates {
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
