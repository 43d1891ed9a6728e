package router

import (
	"cmp"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

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
		d.InFlight += e.load.InFlight
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
