package router

import (
	"cmp"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/data"
	"github.com/verge-edge/verge/internal/wire"
)

// LineStats are what large bodies have shown of the line to another worker.
type LineStats struct {
	data.Worker
	// There and Back are how many bytes per second it carries each way; 0: not known.
	There, Back float64
}

// ServiceStats counts what one service was asked for on this worker.
type ServiceStats struct {
	App, Service string
	Connections  uint64 // of clients, by loopback entries
	Requests     uint64 // of clients, by the gateway
	Failures     uint64 // of both, that no endpoint took
	Endpoints    []EndpointStats
	Connects     counters.Histogram // how long the connections took to open, or to fail
	Traffic      counters.Traffic   // of the connections
	Answers      []counters.AnswerStats
	// Full are requests that found only full queues, Late those without an answer in
	// time, Hopeless those that admission refused because of the objective, Unstarted
	// those for which no instance started. All are in Failures too.
	Full, Late, Hopeless, Unstarted uint64
	// Retries of requests that were sent, and those that the budget did not allow;
	// Outliers are the endpoints ejected for what they answered.
	Retries, RetriesRefused, Outliers uint64
	// MeanBody and MeanAnswer are the bytes of requests and of their answers, the newest
	// counting most.
	MeanBody, MeanAnswer float64
}

// EndpointState is how a router sees an endpoint.
type EndpointState string

// States of an endpoint, best first.
const (
	EndpointOK      EndpointState = "ok"
	EndpointSuspect EndpointState = "suspect" // used only where nothing better is
	EndpointSpare   EndpointState = "spare"   // ready here and not named by the cluster: used only where all others are ejected
	EndpointEjected EndpointState = "ejected" // failed; being probed
	EndpointNoPath  EndpointState = "no path" // cannot be reached from here
)

// EndpointStats counts what one endpoint was given by this worker.
type EndpointStats struct {
	Instance, Cluster, Worker string
	Address                   string // "" for local ones and where there is none
	State                     EndpointState
	Why                       string // explains States other than ok
	Connections               uint64 // opened to it
	Requests                  uint64 // that it answered
	Failures                  uint64 // connections refused or broken before an answer
	Active                    int    // connections and requests now
	// InFlight are the requests from here now. Queue is what waits in front of it by
	// the newest report, Capacity what it can answer per second; 0: not known.
	InFlight, Queue int
	Capacity        float64
}

// Stats returns the counters of all services.
func (r *Services) Stats() (out []ServiceStats, waiting int) {
	for _, s := range r.table.Load().services {
		out = append(out, s.Stats())
		waiting += s.waiting()
	}
	slices.SortFunc(out, func(a, b ServiceStats) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Service, b.Service))
	})
	return out, waiting
}

// Stats returns the counters.
func (s *Service) Stats() ServiceStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := ServiceStats{
		App: s.App, Service: s.name,
		Connections: s.Connections.Load(), Requests: s.Requests.Load(), Failures: s.Failures.Load(),
		Endpoints: make([]EndpointStats, 0, len(s.endpoints)),
		Connects:  s.Connects.Read(), Traffic: s.Traffic.Read(), Answers: s.Answers.Read(),
		Full: s.Overflow, Late: s.Late, Hopeless: s.Hopeless, Unstarted: s.Unstarted,
		Retries: s.retries, RetriesRefused: s.retriesRefused, Outliers: s.outliers,
		MeanBody: s.sizes.body.Value(), MeanAnswer: s.sizes.answer.Value(),
	}
	for i, e := range s.endpoints {
		es := EndpointStats{
			Instance: e.Instance, Cluster: e.Cluster, Worker: e.Worker, Address: e.Address,
			Connections: e.connections.Load(), Requests: e.Requests.Load(), Failures: e.Failures.Load(),
			Active: int(e.Active.Load()), InFlight: s.loadLocked(e).InFlight, Queue: e.report.Queue,
			Capacity: s.loadLocked(e).Capacity,
		}
		es.State, es.Why = s.stateLocked(i)
		if e.Local {
			es.Address = ""
		}
		out.Endpoints = append(out.Endpoints, es)
	}
	slices.SortFunc(out.Endpoints, func(a, b EndpointStats) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Worker, b.Worker))
	})
	return out
}

// stateLocked is how endpoint i is seen, and why.
func (s *Service) stateLocked(i int) (EndpointState, string) {
	switch v := s.view.Endpoints[i]; {
	case !v.Ready:
		return EndpointNoPath, whyNoPath
	case v.Ejected:
		return EndpointEjected, s.endpoints[i].why
	case v.Spare:
		return EndpointSpare, "its cluster does not name it"
	case v.Suspect:
		return EndpointSuspect, "its worker does not report"
	}
	return EndpointOK, ""
}

// waiting counts the requests that wait for the service's endpoints.
func (s *Service) waiting() (n int) {
	for _, e := range s.All() {
		e.mu.Lock()
		n += len(e.waiting)
		e.mu.Unlock()
	}
	return n
}

// demand counts what clients on this worker want of a service, since Demand was asked
// for it.
type demand struct {
	arrived, refused uint64
	open             int // requests that have not ended
	told             bool
}

// came counts a request, and tells that there is one of a service that scales by them
// where Demand had none of it.
func (d *demand) came(counted bool, asked chan<- struct{}) {
	d.arrived++
	d.open++
	if d.told || !counted {
		return
	}
	d.told = true
	select {
	case asked <- struct{}{}:
	default: // of another one, which is yet to be heard
	}
}

// Asked receives when there is a demand again after there was none.
func (r *Services) Asked() <-chan struct{} { return r.DemandNews }

// Demand is what was asked for on this worker, of services that scale by their requests,
// since it was called last: those to which requests came, or have some under way, by
// application and service. It is for one caller.
func (r *Services) Demand() []wire.ServiceDemand {
	now := time.Now()
	var out []wire.ServiceDemand
	for _, s := range r.table.Load().services {
		if s.limits.Load() == nil {
			continue
		}
		if d, any := s.demanded(r, now); any {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b wire.ServiceDemand) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Service, b.Service))
	})
	return out
}

func (s *Service) demanded(r *Services, now time.Time) (d wire.ServiceDemand, any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := &s.demand
	if !s.from.Requests.Count() || n.arrived == 0 && n.refused == 0 && n.open == 0 {
		n.arrived, n.refused, n.told = 0, 0, false
		return d, false
	}
	d = wire.ServiceDemand{App: s.App, Service: s.name, Requests: n.arrived, Refused: n.refused}
	n.arrived, n.refused = 0, 0
	for _, e := range s.endpoints {
		d.InFlight += s.loadLocked(e).InFlight
		report := e.report
		if x := r.Local.Get(e.Instance); e.Local && x != nil {
			report = x.Queue.Report(now) // what there is now, whoever asked
			e.capacity.Observe(report, s.from.Requests.Places(), now)
		}
		rps, known := e.capacity.RPS()
		if !known {
			rps = 0
		}
		if (known || report.Exec > 0) && len(d.Replicas) < wire.MaxDemandReplicas {
			d.Replicas = append(d.Replicas, wire.ReplicaDemand{Instance: e.Instance, RPS: rps, Exec: api.Duration(report.Exec), Waiting: report.Queue})
		}
	}
	d.Waiting = max(0, n.open-d.InFlight)
	return d, true
}
