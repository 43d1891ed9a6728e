package placement

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/place/turn"
)

// Scheduler is a way to place a scenario.
type Scheduler struct {
	Name string
	// Asks is the name of the scheduler in requests; "" is Name.
	Asks string
	// Tight: instances of one service need not be on several workers.
	Tight bool
	// Near: requests include the agreements on distances, by the coordinates of workers. Between
	// clusters the root goes by where their workers are on the whole, and a cluster by the round
	// trips that its workers measure to instances in others.
	Near bool
	// Traffic: it knows where requests come from.
	Traffic bool
	// together decides about all instances at once; nil: one after the other.
	together func(p *Pool, s *Scenario) error
}

func (a Scheduler) name() string {
	if a.Asks != "" {
		return a.Asks
	}
	return a.Name
}

// Schedulers returns the baseline, then those that Verge has.
func Schedulers() []Scheduler {
	return []Scheduler{
		Baseline,
		{Name: place.Spread},
		{Name: place.ROM},
		{Name: "rom-tight", Asks: place.ROM, Tight: true},
		{Name: "rom-near", Asks: place.ROM, Near: true},
		{Name: place.LDP, Near: true},
		{Name: place.NearestDemand, Near: true, Traffic: true},
		{Name: place.Throughput},
		round(place.DRF),
		round(place.DRFWorstFit),
		round(place.DRFBestFit),
		round(place.DRFTightest),
	}
}

// round is a scheduler by dominant resource fairness: it decides all waiting instances in one
// round, as in a cluster.
func round(name string) Scheduler {
	return Scheduler{Name: name, together: func(p *Pool, s *Scenario) error {
		waiting := make([]turn.Contender, len(s.Services))
		for i, v := range s.Services {
			waiting[i] = turn.Contender{Service: v.Name, Demand: v.Demand, Waiting: v.Replicas}
		}
		var out []place.Assignment
		p.timed(func() {
			out = place.Contend(p.views, waiting,
				func(i int) place.Request { return request(&s.Services[i], 0, Scheduler{Name: name}) })
		})
		p.Decisions = len(out)
		for _, a := range out {
			if err := p.bind(p.at[a.Worker], &s.Services[a.Contender]); err != nil {
				return err
			}
		}
		return nil
	}}
}

// Result of a run.
type Result struct {
	Scenario  *Scenario
	Scheduler Scheduler
	// On are the workers of the instances of each service, in the order of placement.
	On             [][]int
	Wanted, Placed int
	// Devices of each worker, with their use.
	Devices [][]device.Device
	// Took is the processor time of all decisions, Decisions their number.
	Took      time.Duration
	Decisions int
	// Why is the first reason of each service that was not placed completely.
	Why map[string]string
	// Refused counts instances that clusters were offered and gave back, Offers how often one was
	// asked. Zero in a flat run. RootTook and RootDecisions are the root's.
	Refused, Offers int
	RootTook        time.Duration
	RootDecisions   int
}

func newResult(s *Scenario, by Scheduler) *Result {
	r := &Result{Scenario: s, Scheduler: by, On: make([][]int, len(s.Services)),
		Devices: make([][]device.Device, len(s.Workers)), Why: map[string]string{}}
	for _, v := range s.Services {
		r.Wanted += v.Replicas
	}
	return r
}

// PerDecision is the mean time of a decision.
func (r *Result) PerDecision() time.Duration { return r.Took / time.Duration(max(1, r.Decisions)) }

// Run places the services of a scenario in their order, on one cluster of all workers.
// It is an error if the scheduler overcommits a worker.
func Run(ctx context.Context, s *Scenario, by Scheduler) (*Result, error) {
	r := newResult(s, by)
	if by.Near {
		s.locate()
	}
	ids := make([]int, len(s.Workers))
	for i := range ids {
		ids[i] = i
	}
	p := NewPool(s, ids)
	err := pinned(func() error {
		if by.together != nil {
			return by.together(p, s)
		}
		for n, i := range s.order() {
			v := &s.Services[i]
			if r.Why[v.Name] != "" {
				continue // nothing has become free since
			}
			if n%256 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if _, why, err := p.one(v, n, by, p.near(v, by)); err != nil {
				return err
			} else if why != "" {
				r.Why[v.Name] = why
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s by %s: %w", s.Name, by.Name, err)
	}
	r.Took, r.Decisions = p.Took, p.Decisions
	r.collect(p)
	return r, nil
}

// collect adds the instances of a cluster.
func (r *Result) collect(p *Pool) {
	for k, id := range p.ids {
		r.Devices[id] = p.views[k].Devices
	}
	for i := range r.Scenario.Services {
		for _, k := range p.on[r.Scenario.Services[i].Name] {
			r.On[i] = append(r.On[i], p.ids[k])
			r.Placed++
		}
	}
}

// Joint says whether it decides about all instances at once: it cannot then run on several
// clusters.
func (a Scheduler) Joint() bool { return a.together != nil }

// Placed is how many instances of a service run on a worker, both by their numbers in the scenario.
type Placed struct{ Service, Worker, Instances int }

// Evaluate returns the result of a placement made elsewhere in the time took. It is an error if it
// overcommits a worker, or has more instances than were asked for.
func Evaluate(s *Scenario, by string, spots []Placed, took time.Duration) (*Result, error) {
	r := newResult(s, Scheduler{Name: by})
	ids := make([]int, len(s.Workers))
	for i := range ids {
		ids[i] = i
	}
	p := NewPool(s, ids)
	rest := make([]int, len(s.Services))
	for i, v := range s.Services {
		rest[i] = v.Replicas
	}
	for _, x := range spots {
		if x.Service < 0 || x.Service >= len(s.Services) || x.Worker < 0 || x.Worker >= len(s.Workers) ||
			x.Instances < 0 ||
			x.Instances > rest[x.Service] {
			return nil, fmt.Errorf("%s by %s: %d instances of service %d on worker %d were not asked for", s.Name,
				by, x.Instances, x.Service, x.Worker)
		}
		rest[x.Service] -= x.Instances
		for range x.Instances {
			if err := p.bind(x.Worker, &s.Services[x.Service]); err != nil {
				return nil, fmt.Errorf("%s by %s: %w", s.Name, by, err)
			}
		}
	}
	r.Took, r.Decisions = took, 1
	r.collect(p)
	return r, nil
}
