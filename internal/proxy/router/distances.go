package router

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy/data"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Distances are what policies go by. A Router calls them from any goroutine, with
// locks held: they return at once.
type Distances interface {
	// Want says that a service is used that needs the distances to these workers.
	Want(service string, workers []data.Worker)
	// Distance to a worker, where it comes from, and when it was found.
	Distance(cluster, worker string) (rtt time.Duration, from route.Source, at time.Time)
	// Version changes when a Distance may have.
	Version() uint64
}

const (
	// distancesFor is the longest that a service in use goes by the same distances,
	// distancesLeast the shortest: while many are measured, each of them is news.
	distancesFor   = 10 * time.Second
	distancesLeast = 100 * time.Millisecond
)

// far is when and from what the distances in a service's view were taken.
type far struct {
	at      time.Time
	version uint64
}

// lookLocked takes the distances into the view where that is due, and says that
// they are needed. Nobody does that while a service is not used: what is not asked
// for costs nothing.
func (s *Service) lookLocked(d Distances, now time.Time) {
	if d == nil || !s.needsDistances() {
		return
	}
	version, age := d.Version(), now.Sub(s.far.at)
	if age < distancesLeast || age < distancesFor && version == s.far.version {
		return
	}
	s.lookAgainLocked(d, now, version, age >= distancesFor)
}

// lookAgainLocked is by itself, since the stack that it needs is not needed for each
// request: each has a goroutine of its own over HTTP/2, whose stack would be moved.
func (s *Service) lookAgainLocked(d Distances, now time.Time, version uint64, want bool) {
	s.far.version = version
	if want || s.far.at.IsZero() {
		d.Want(s.Key, s.workersLocked())
	}
	s.far.at = now
	for i, e := range s.endpoints {
		if e.Local {
			continue
		}
		v := s.view.Endpoints[i]
		v.RTT, v.Source, _ = d.Distance(e.Cluster, e.Worker)
		s.view.Set(i, v)
	}
}

// needsDistances says whether the policy goes by them here and now.
func (s *Service) needsDistances() bool { return route.NeedsDistances(s.said, s.view) }

// workersLocked are the other workers that have endpoints.
func (s *Service) workersLocked() []data.Worker {
	seen := map[data.Worker]bool{}
	var out []data.Worker
	for _, e := range s.endpoints {
		w := data.Worker{Cluster: e.Cluster, Name: e.Worker, Address: e.Address}
		if !e.Local && e.Address != "" && !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	return out
}

// ordinalOf is the number of the replica in the name of an instance, −1 where there
// is none.
func ordinalOf(id wire.InstanceID) int {
	n, err := strconv.Atoi(id[strings.LastIndexByte(id, '.')+1:])
	if err != nil {
		return -1
	}
	return n
}

// used counts a connection or request that an endpoint was given.
func (s *Service) used(e *Endpoint) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e.recent.Add(now)
}

// Route is how a service is routed here now; false where it is not.
func (r *Services) Route(key string) (rpc.RouteReport, bool) {
	s := r.table.Load().services[key]
	if s == nil {
		return rpc.RouteReport{}, false
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agedLocked(now)
	out := rpc.RouteReport{
		V: wire.Version, Cluster: r.Opts.Cluster, Worker: r.Opts.Worker,
		App: s.App, Service: s.name, Policy: s.said, Endpoints: make([]rpc.RouteEndpoint, len(s.endpoints)),
		MeanBody: s.sizes.body.Value(), MeanAnswer: s.sizes.answer.Value(),
	}
	for i, e := range s.endpoints {
		v, w := s.view.Endpoints[i], &out.Endpoints[i]
		if d := r.Opts.Distances; d != nil && !e.Local {
			var at time.Time
			if v.RTT, v.Source, at = d.Distance(e.Cluster, e.Worker); v.Source != route.Unknown {
				w.AgeSeconds = max(0, now.Sub(at).Seconds())
			}
			s.view.Set(i, v)
		}
		w.Instance, w.Cluster, w.Worker, w.Address = e.Instance, e.Cluster, e.Worker, e.Address
		w.CPU, w.Serves, w.ServesBy, w.Weight, w.Local, w.Ordinal, w.Recent = e.cpu, e.serves, e.servesBy, v.Weight, e.Local, v.Ordinal, e.recent.Sum(now)
		if v.Source != route.Unknown {
			w.RTT, w.Source = api.Duration(v.RTT), v.Source.String()
		}
		w.InFlight, w.Queue, w.Capacity, w.Exec = v.Load.InFlight, e.report.Queue, v.Load.Capacity, api.Duration(v.Load.Exec)
		w.Asleep, w.Bandwidth, w.Back = v.Load.Asleep, v.Load.Bandwidth, v.Load.Back
		st, why := s.stateLocked(i)
		w.State, w.Why = string(st), why
	}
	for i, share := range s.policy.Weights(s.view) {
		out.Endpoints[i].Share = share
	}
	slices.SortFunc(out.Endpoints, func(a, b rpc.RouteEndpoint) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Worker, b.Worker))
	})
	return out, true
}

// Workers are the other workers behind a service, or behind all where key is "".
func (r *Services) Workers(key string) []data.Worker {
	seen := map[data.Worker]bool{}
	out := []data.Worker{}
	for name, s := range r.table.Load().services {
		if key != "" && name != key {
			continue
		}
		s.mu.Lock()
		for _, w := range s.workersLocked() {
			if !seen[w] {
				seen[w] = true
				out = append(out, w)
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b data.Worker) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Name, b.Name))
	})
	return out
}
