package placement

import (
	"cmp"
	"math"
	"slices"

	"github.com/verge-edge/verge/internal/policy/place/device"
)

// Baseline is the default of Kubernetes, computed here and not by Verge: of the nodes that fit, the
// one with the highest mean of least-allocated (the part left over, averaged over cpu and memory)
// and balanced-allocation (how alike both are filled). The others are compared with it, also
// Verge's own "spread".
var Baseline = Scheduler{Name: "kubernetes", together: eachByScore(kubernetesScore)}

func kubernetesScore(capacity, free, want [2]float64) float64 {
	var used [2]float64
	for j := range used {
		used[j] = 1
		if capacity[j] > 0 {
			used[j] = (capacity[j] - free[j] + want[j]) / capacity[j]
		}
	}
	least := 1 - (used[0]+used[1])/2
	balanced := 1 - math.Abs(used[0]-used[1])/2 // the deviation of two numbers
	return least + balanced
}

// eachByScore places the instances one by one on the worker with the highest score, the first of
// equals.
func eachByScore(score func(capacity, free, want [2]float64) float64) func(*Pool, *Scenario) error {
	return func(p *Pool, s *Scenario) error {
		full := map[int]bool{}
		for _, i := range s.order() {
			v := &s.Services[i]
			best := -1
			if !full[i] {
				p.timed(func() { best = p.highest(v, score) })
			}
			if full[i] = best < 0; full[i] {
				continue
			}
			if err := p.bind(best, v); err != nil {
				return err
			}
		}
		return nil
	}
}

func (p *Pool) highest(v *Service, score func(capacity, free, want [2]float64) float64) int {
	best, most := -1, math.Inf(-1)
	want := [2]float64{float64(v.Demand.CPU), float64(v.Demand.Memory)}
	for i := range p.views {
		w := &p.views[i]
		capacity := [2]float64{float64(w.Capacity.CPU), float64(w.Capacity.Memory)}
		free := [2]float64{float64(w.Capacity.CPU - w.Used.CPU), float64(w.Capacity.Memory - w.Used.Memory)}
		if free[0] < want[0] || free[1] < want[1] {
			continue
		}
		if v.Demand.VGPUs > 0 {
			if _, lacking := device.Give(w.Devices, v.Demand, nil); lacking != "" {
				continue
			}
		}
		if x := score(capacity, free, want); x > most {
			best, most = i, x
		}
	}
	return best
}

// MostPods nearly maximises how many instances are placed: the smallest first, by the sum of their
// shares of all resources, on the worker that is then the fullest. It stands for Mu's ILP0 where
// there is no solver.
var MostPods = Scheduler{Name: "most-pods", together: func(p *Pool, s *Scenario) error {
	var total [2]float64
	for i := range p.views {
		total[0] += float64(p.views[i].Capacity.CPU)
		total[1] += float64(p.views[i].Capacity.Memory)
	}
	size := func(i int) float64 {
		d := s.Services[i].Demand
		return float64(d.CPU)/total[0] + float64(d.Memory)/total[1]
	}
	sorted := *s
	sorted.Order = slices.Clone(s.order())
	slices.SortStableFunc(sorted.Order,
		func(a, b int) int { return cmp.Or(cmp.Compare(size(a), size(b)), cmp.Compare(a, b)) })
	return eachByScore(func(capacity, free, want [2]float64) (score float64) {
		for j := range capacity {
			score -= (free[j] - want[j]) / max(1, capacity[j])
		}
		return score
	})(p, &sorted)
}}
