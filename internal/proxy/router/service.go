package router

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/eject"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/proxy/queue"
	"github.com/verge-edge/verge/internal/proxy/upstream"
	"github.com/verge-edge/verge/internal/wire"
)

// Service is a routed service. It stays the same object for as long as it is
// routed, so that rotation, health and counters outlive a new set of routes.
type Service struct {
	App, name string
	Key       string
	seed      uint64
	clientCounters

	limits  atomic.Pointer[queue.Limits] // of its instances' queues; nil: none
	counted atomic.Bool                  // it is counted how its instances answer
	unasked atomic.Bool                  // its endpoints are not here
	came    atomic.Int64                 // when a client came last, a stamp; 0 never

	mu    sync.Mutex    // guards below; nothing is called with it that blocks
	from  wire.Route    // what update was told last
	newer chan struct{} // closed by the next one; nil: nobody waits for it
	policies
	far   far
	ports []api.Port
	view  route.View
	// endpoints has the order of view.Endpoints.
	endpoints []*Endpoint
	// emptied is when the last of them went; zero: there are some, or there were none.
	emptied time.Time
	budget  eject.Budget // for retries
	refusals
	nextIn time.Time // when the first ejected outlier returns; zero: none is out
	demand demand
	usable []int // of admits, kept for the next one
	// sizes of requests, and when something that is known of lines may be too old (zero:
	// nothing is known).
	sizes     sizes
	lineUntil time.Time
}

// clientCounters count the clients of a service.
type clientCounters struct {
	Connections atomic.Uint64      // by entries
	Requests    atomic.Uint64      // by the gateway
	Failures    atomic.Uint64      // of both, to which no endpoint could be given
	Connects    counters.Durations // how long each of the connections took to open, or to fail
	Traffic     counters.Bytes     // of those connections
	Answers     counters.Answers   // to the requests
}

// policies choose the endpoints of a service.
type policies struct {
	policy    route.Policy // of requests
	conns     route.Policy // of connections
	said      api.Policy   // that of requests, as the route says it
	connsSaid api.Policy
	trial     bool // both are for a revision that is tried as well
}

// refusals count the requests of a service that met a bound.
type refusals struct {
	// Retries made and refused by the budget, and outliers ejected so far.
	retries, retriesRefused, outliers uint64
	// Late, overflow and hopeless are the requests that got no answer in time, those
	// that found only full queues, and those that admission refused; unstarted are those
	// for which no instance started.
	Late, Overflow, Hopeless, Unstarted uint64
}

// Endpoint is an instance behind a service. The same instance, worker and
// address stay the same object over new sets of routes.
type Endpoint struct {
	wire.Endpoint // but Suspect, which is in the view, and CPU
	service       *Service
	id            string // of the instance on its worker; unique in the service
	Local         bool
	seed          uint64
	endpointCounters

	// Guarded by Service.mu.
	index  int // in Service.endpoints; -1 once it is gone
	recent counters.Minute
	cpu    api.CPU
	// trial and trialShare as in wire.Endpoint.
	trial      bool
	trialShare api.Percent
	// serves and servesBy are of the profile of the service.
	serves   float64
	servesBy string
	rotation
	// last is the load of one that is in no view, see loadLocked; report is the newest of its
	// queue, and capacity what is made of all of them.
	last     route.Load
	report   scale.Report
	capacity scale.Capacity
	width    route.Line // to its worker

	mu         sync.Mutex                           // guards below
	retired    bool                                 // see retire
	parked     bool                                 // see park
	transports map[upstream.Key]*upstream.Transport // of another worker
	pools      map[string]*http1.Pool               // of another worker, by port name
	waiting    map[*Waiter]struct{}                 // requests, see wait
	looked     time.Time                            // see look: when the last one began, or ended
	looking    bool                                 // one is under way
	opening    chan struct{}                        // see openStream
}

// endpointCounters are what is known of an endpoint without a lock.
type endpointCounters struct {
	connections atomic.Uint64
	Requests    atomic.Uint64
	Failures    atomic.Uint64
	Active      atomic.Int64 // connections and requests now
	took        atomic.Int64 // ns to open a connection, usually; 0 is not known
	Lost        atomic.Bool  // its worker could not be reached when that was tried last
	Reached     atomic.Int64 // when a stream to it was opened or it answered last, a stamp; see reachedSince
	late        atomic.Int32 // connections that take too long to open now; see hedge
}

// rotation is why an endpoint is chosen, or not.
type rotation struct {
	health  eject.Health
	why     string // it is ejected
	outlier eject.Outlier
	out     bool // its answers were errors, says outlier
}

const whyNoPath = "no path: its worker has no data address that others can reach"

func endpointID(e wire.Endpoint) string { return e.Instance + "@" + e.Cluster + "/" + e.Worker }

// seedOf is different for every router and name, and the same after a restart.
func seedOf(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // a hash never fails
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

// update puts the endpoints of a new route in place and returns those that are
// gone.
func (s *Service) update(rt *wire.Route, isLocal func(wire.Endpoint) bool, unknown func(error)) (gone []*Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unasked.Store(rt.Unasked)
	s.limits.Store(limitsOf(rt))
	s.counted.Store(rt.Requests.Counted)
	if s.policy != nil && unchanged(&s.from, rt) {
		return nil
	}
	s.from = *rt
	if s.newer != nil {
		close(s.newer)
		s.newer = nil
	}
	s.choose(rt, slices.ContainsFunc(rt.Endpoints, func(e wire.Endpoint) bool { return e.Trial }), unknown)
	s.ports = rt.Ports

	before := make(map[string]*Endpoint, len(s.endpoints))
	for _, e := range s.endpoints {
		before[e.id] = e
		e.last = *s.loadLocked(e)
		e.index = -1
	}
	now := make(map[string]*Endpoint, len(rt.Endpoints))
	list := make([]route.Endpoint, 0, len(rt.Endpoints))
	for _, we := range rt.Endpoints {
		id := endpointID(we)
		if now[id] != nil {
			continue
		}
		e := before[id]
		if e == nil || e.Address != we.Address {
			e = &Endpoint{
				Endpoint: we, service: s, id: id, index: -1,
				Local: isLocal(we), seed: seedOf(id) ^ s.seed,
			}
			e.Suspect = false
		}
		e.cpu, e.serves, e.servesBy, now[id] = we.CPU, we.Serves, we.ServesBy, e
		e.trial, e.trialShare = we.Trial, we.TrialShare
		e.last.Asleep, e.last.StartUp = we.Asleep, we.StartUp.Std()
		list = append(list, route.Endpoint{
			ID:      id,
			Local:   e.Local,
			Ordinal: ordinalOf(we.Instance),
			Ready:   e.Local || e.Address != "",
			Suspect: we.Suspect,
			Spare:   we.Spare,
			Ejected: e.health.Ejected() || e.out,
			Load:    e.last,
		})
	}
	route.Weigh(list, func(i int) route.Capable {
		e := now[list[i].ID]
		return route.Capable{Node: e.Cluster + "/" + e.Worker, Serves: e.serves, CPU: float64(e.cpu)}
	})
	route.Group(list, func(i int) route.Try {
		e := now[list[i].ID]
		return route.Try{Cluster: e.Cluster, New: e.trial, Share: e.trialShare.Of()}
	})
	s.view = route.NewView(s.seed, list)
	s.far.at = time.Time{} // the next choice looks at the distances
	switch had := len(s.endpoints) > 0; {
	case len(list) > 0:
		s.emptied = time.Time{}
	case had:
		s.emptied = time.Now()
	}
	s.endpoints = make([]*Endpoint, len(s.view.Endpoints))
	for i := range s.view.Endpoints {
		e := now[s.view.Endpoints[i].ID]
		e.index = i
		s.endpoints[i] = e
	}
	for _, e := range before {
		if e.index < 0 {
			gone = append(gone, e)
		}
	}
	return gone
}

// choose makes the policies of a route; service.mu is held. A newer orchestrator knows
// more of them: traffic must still flow. trial: another revision is tried on a share.
func (s *Service) choose(rt *wire.Route, trial bool, unknown func(error)) {
	known := func(p route.Policy, err error) route.Policy {
		if err != nil {
			unknown(err)
			return &route.RoundRobin{}
		}
		return p
	}
	split := func(policy func() route.Policy) route.Policy {
		if trial {
			return route.NewSplit(policy)
		}
		return policy()
	}
	if said := rt.RequestPolicy(); s.policy == nil || s.said != said || s.trial != trial {
		s.policy, s.said = split(func() route.Policy { return known(route.New(said, s.seed)) }), said
	}
	if said := rt.PolicyOf(); s.conns == nil || s.connsSaid != said || s.trial != trial {
		s.conns, s.connsSaid = split(func() route.Policy { return known(route.NewForConnections(said, s.seed)) }), said
	}
	s.trial = trial
}

// News is closed when the route has changed.
func (s *Service) News() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newer == nil {
		s.newer = make(chan struct{})
	}
	return s.newer
}

// Awaited says whether somebody waits for news.
func (s *Service) Awaited() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newer != nil
}

// UnderWay is how many requests have not ended.
func (s *Service) UnderWay() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.demand.open
}

// ReportOf is the newest report of an endpoint's queue.
func (s *Service) ReportOf(e *Endpoint) scale.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.report
}

// CatchUpFor is how long a request waits for newer routes at most when all endpoints of those
// that are here have said that they are not the ones to ask any more.
const CatchUpFor = time.Second

// Learnt is what is known of an endpoint: the bandwidth of the line to it and from it, and
// how long it works on a request.
func (e *Endpoint) Learnt() (there, back float64, exec time.Duration) {
	e.service.mu.Lock()
	defer e.service.mu.Unlock()
	l := e.service.view.Endpoints[e.index].Load
	return l.Bandwidth, l.Back, l.Exec
}

// JustLost says whether the last endpoint went so lately that another one may be about to
// come: all of them may have been slow to answer their checks at the same time.
func (s *Service) JustLost(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.emptied.IsZero() && now.Sub(s.emptied) < CatchUpFor
}

// unchanged says whether a route is for certain the one of before: most are, when
// another one has changed.
func unchanged(a, b *wire.Route) bool {
	return a.Policy == b.Policy && a.Routing == b.Routing && a.Requests == b.Requests && shared(a.Ports, b.Ports) && shared(a.Endpoints, b.Endpoints)
}

// shared says whether two slices are the same piece of memory, and not empty.
func shared[T any](a, b []T) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
}

// Arrive notes that a client came, and sees to it that the endpoints are here.
func (r *Services) Arrive(ctx context.Context, s *Service, now time.Time) error {
	s.came.Store(counters.Stamp(now))
	if !s.unasked.Load() || r.Opts.Ask == nil {
		return nil
	}
	return r.Opts.Ask(ctx, s.Key)
}

// LastUse is when a client of a service came last, now where one is there; zero if
// there was none.
func (r *Services) LastUse(key string) time.Time {
	s := r.table.Load().services[key]
	if s == nil {
		return time.Time{}
	}
	for _, e := range s.All() {
		if e.Active.Load() > 0 {
			return time.Now()
		}
	}
	if at := s.came.Load(); at != 0 {
		return counters.Stamped(at)
	}
	return time.Time{}
}

// All returns the endpoints.
func (s *Service) All() []*Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endpoints // replaced as a whole, never changed
}

// pick chooses an endpoint, by these distances where the policy needs any; nil if there is none
// (left). more: there are others still.
func (s *Service) pick(d Distances, tried []string) (e *Endpoint, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookLocked(d, time.Now())
	i, ok := s.conns.Pick(s.view, route.Request{Tried: tried})
	if !ok {
		return nil, false
	}
	return s.endpoints[i], s.moreLocked(i, tried)
}

// firstPort is what a probe connects to.
func (s *Service) firstPort() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ports) == 0 {
		return ""
	}
	return cmp.Or(api.FirstTCP(s.ports), PortName(s.ports[0]))
}

// isUDP says whether a port is one for datagrams.
func (s *Service) isUDP(port string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.ports, func(p api.Port) bool { return p.Protocol == api.UDP && PortName(p) == port })
}

func (s *Service) isEjected(e *Endpoint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.health.Ejected()
}

// isSuspect: its cluster has not heard of its worker.
func (s *Service) isSuspect(e *Endpoint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.index >= 0 && s.view.Endpoints[e.index].Suspect
}

// setHealth replaces the health of an endpoint and returns whether it was
// ejected before.
func (s *Service) setHealth(e *Endpoint, why string, next func(eject.Health) eject.Health) (was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was = e.health.Ejected()
	e.health = next(e.health)
	e.why = why
	s.seenLocked(e)
	return was
}

// setHealthIfEjected changes the health of an endpoint that is ejected and keeps
// the reason.
func (s *Service) setHealthIfEjected(e *Endpoint, next func(eject.Health) eject.Health) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.health.Ejected() {
		e.health = next(e.health)
	}
}

// Eject takes an endpoint out of the rotation until a probe succeeds.
func (r *Services) Eject(e *Endpoint, why string) {
	was := e.service.setHealth(e, why, func(h eject.Health) eject.Health { return h.Failed(time.Now(), e.seed) })
	if !was {
		r.Opts.Log.Info("endpoint out of rotation", "service", e.service.Key, "instance", e.Instance, "worker", e.Worker, "why", why)
	}
	r.wakeProber()
}

// readmit takes an endpoint back into the rotation.
func (r *Services) readmit(e *Endpoint) {
	e.park(false)
	e.Lost.Store(false)
	if e.service.setHealth(e, "", eject.Health.Succeeded) {
		r.Opts.Log.Info("endpoint back in rotation", "service", e.service.Key, "instance", e.Instance, "worker", e.Worker)
	}
}

// PortName is the name of a port whose descriptor may have left it out.
func PortName(p api.Port) string {
	switch {
	case p.Name != "":
		return p.Name
	case p.ForRequests():
		return "http"
	}
	return "tcp"
}
