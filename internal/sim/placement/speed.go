package placement

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Pace is how quickly instances are placed.
type Pace struct {
	// Took is the processor time of each decision, index upkeep included.
	Took []time.Duration
	// Placed counts instances that got a worker, Kept those whose agreements hold.
	Placed, Kept int
}

// warmUp decisions are not counted: they build the index.
const warmUp = 20

// targets is how many of the first services of NearPlaces have a worker each.
func targets(workers int) int { return max(1, min(50, workers/5)) }

// Speed places one instance of each service of NearPlaces on one cluster of all workers, which
// already runs those that others must be near.
func Speed(ctx context.Context, s *Scenario, by Scheduler) (*Pace, error) {
	if by.Near {
		s.locate()
	}
	ids := make([]int, len(s.Workers))
	for i := range ids {
		ids[i] = i
	}
	p := NewPool(s, ids)
	out := &Pace{}
	err := pinned(func() error {
		rng := rand.New(rand.NewPCG(13, 14))
		n := targets(len(p.views))
		for k, w := range rng.Perm(len(p.views))[:n] {
			v := s.Services[k]
			v.Demand = p.views[w].Capacity
			if err := p.bind(w, &v); err != nil {
				return err
			}
		}
		for ; n < len(s.Services); n++ {
			if n%64 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			v := &s.Services[n]
			from := p.Took
			worker, why, err := p.one(v, n, by, p.near(v, by))
			if err != nil {
				return err
			}
			if n < targets(len(p.views))+warmUp {
				continue
			}
			out.Took = append(out.Took, p.Took-from)
			if why != "" {
				continue
			}
			out.Placed++
			if p.keeps(s, v, worker) {
				out.Kept++
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%d workers by %s: %w", len(s.Workers), by.Name, err)
	}
	return out, nil
}

// keeps says whether an instance on a worker really is as near as it must be.
func (p *Pool) keeps(s *Scenario, v *Service, worker int) bool {
	for _, n := range v.Near {
		near := false
		for _, i := range p.on[n.To] {
			near = near || s.RTT(s.Workers[worker].Site, s.Workers[p.ids[i]].Site) <= n.Within
		}
		if !near {
			return false
		}
	}
	return true
}

// NearPlaces is workers of 2 to 32 cores at the sites of PlanetLab, and small services that must be
// within 20 ms of another one, as in section 5.4 of Oakestra's paper.
func NearPlaces(workers, services int, seed uint64) (*Scenario, error) {
	s, err := PlanetLab(0, seed)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 10))
	s.Workers = nil
	for i := range workers {
		cores := float64(int(2) << rng.IntN(5))
		w := worker(i, cores, 4*cores*gib)
		w.Cluster, w.Site = clusterName(0), rng.IntN(s.Sites)
		s.Workers = append(s.Workers, w)
	}
	for i := range targets(workers) + warmUp + services {
		v := Service{Name: fmt.Sprintf("app.service-%d", i), Replicas: 1, Demand: demand(0.01, 1e6)}
		if i >= targets(workers) {
			// So small that hundreds fit on ten workers: what is measured is the decision.
			v.Near = []Near{{To: fmt.Sprintf("app.service-%d", rng.IntN(targets(workers))), Within: 20}}
		}
		s.Services = append(s.Services, v)
	}
	return s, nil
}
