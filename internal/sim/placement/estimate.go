package placement

import (
	"context"
	"math/rand/v2"

	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
)

// Errors counts how often the root's expectation from an aggregate was wrong.
type Errors struct {
	// Fits counts cases in which all replicas fitted, FitsNot the others.
	Fits, FitsNot int
	// FalseRefuse counts cases of Fits with fewer expected, FalseAccept cases of FitsNot with all
	// expected. Starved: none was expected, and some fitted. Vain: some were expected, and none
	// fitted.
	FalseRefuse, FalseAccept, Starved, Vain int
	// Wanted replicas in all; Over and Under: how many more and fewer were expected than fit.
	Wanted, Over, Under float64
}

// Cases is the number of cases.
func (e Errors) Cases() int { return e.Fits + e.FitsNot }

// Estimates fills each cluster of a scenario with its services up to the share full of its
// processors, then asks it for random services in random numbers, and compares what the root
// expects from the aggregate alone with what fits.
func Estimates(ctx context.Context, s *Scenario, full float64, draws int, rng *rand.Rand) (e Errors, err error) {
	t := NewTiers(s, Scheduler{Name: "rom"})
	for _, p := range t.Pools {
		if err := ctx.Err(); err != nil {
			return e, err
		}
		p.fill(s, full, rng)
		agg := Aggregate(p.views)
		for range draws {
			v := &s.Services[rng.IntN(len(s.Services))]
			wanted := 1 + rng.IntN(min(100, 2*len(p.views)))
			expected, _ := place.Expect(agg, v.Demand, wanted)
			e.add(expected, p.room(v, wanted), wanted)
		}
	}
	return e, nil
}

func (e *Errors) add(expected, fits, wanted int) {
	e.Wanted += float64(wanted)
	e.Over += float64(max(0, expected-fits))
	e.Under += float64(max(0, fits-expected))
	if fits == wanted {
		e.Fits++
		if expected < wanted {
			e.FalseRefuse++
		}
	} else {
		e.FitsNot++
		if expected == wanted {
			e.FalseAccept++
		}
	}
	if expected == 0 && fits > 0 {
		e.Starved++
	}
	if expected > 0 && fits == 0 {
		e.Vain++
	}
}

// fill places random services of the scenario on random workers where they fit.
func (p *Pool) fill(s *Scenario, full float64, rng *rand.Rand) {
	var total, used float64
	for i := range p.views {
		total += cpuOf(p.views[i].Capacity)
	}
	for missed := 0; used < full*total && missed < 20*len(p.views); {
		v, w := &s.Services[rng.IntN(len(s.Services))], &p.views[rng.IntN(len(p.views))]
		if ok, _ := amount.Fits(amount.Sub(w.Capacity, w.Used), v.Demand); !ok {
			missed++
			continue
		}
		w.Used = amount.Add(w.Used, v.Demand)
		used += cpuOf(v.Demand)
	}
}

// room is how many of the wanted replicas fit: identical ones cannot be packed better than worker
// by worker.
func (p *Pool) room(v *Service, wanted int) int {
	sum := 0
	for i := range p.views {
		free, fit := amount.Sub(p.views[i].Capacity, p.views[i].Used), wanted
		if v.Demand.CPU > 0 {
			fit = min(fit, int(free.CPU/v.Demand.CPU))
		}
		if v.Demand.Memory > 0 {
			fit = min(fit, int(free.Memory/v.Demand.Memory))
		}
		sum += fit
	}
	return min(sum, wanted)
}

// Regroup puts the workers of a scenario into random clusters of the given size.
func (s *Scenario) Regroup(size int, rng *rand.Rand) {
	for k, i := range rng.Perm(len(s.Workers)) {
		s.Workers[i].Cluster = clusterName(k / size)
	}
}
