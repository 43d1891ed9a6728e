package placement

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/device"
)

// Quality of a placement.
type Quality struct {
	// Placed is the share of instances placed, PlacedCPU that of the cores asked for.
	Placed, PlacedCPU float64
	// Violated is the share of agreements of placed instances that do not hold; NaN if
	// there are none.
	Violated float64
	// Expected is the mean time of a request in ms: the round trip to the replica, and the work
	// there, where requests share what the instance reserves. Each goes where it takes least, with
	// full knowledge (an equilibrium). Unserved is the share of requests beyond the capacity of the
	// replicas. NaN if no requests are known.
	Expected, Unserved float64
	// Unfair and Unmet are U_j and I_j of Mu's equation 7 at the end, for cores and GiB.
	Unfair, Unmet [2]float64
	// Fragments is the share of all cores, and of all memory, that is free but useless: on workers
	// on which an instance drawn at random (of all that were asked for) does not fit.
	Fragments [2]float64
	// FragmentsGPU is the same of GPUs, for an instance that asks for some: all that is free where
	// it does not fit, else the rest of each GPU in which it does not. NaN if there are none.
	// PlacedGPU is the share of the GPUs asked for that was placed.
	FragmentsGPU, PlacedGPU float64
	// Empty is the share of workers without an instance.
	Empty float64
}

// Measure a placement.
func Measure(r *Result) Quality {
	q := Quality{Placed: ratio(float64(r.Placed), float64(r.Wanted))}
	s := r.Scenario
	var asked, got float64
	used := make([]api.Resources, len(s.Workers))
	empty := len(s.Workers)
	for i, v := range s.Services {
		asked += float64(v.Replicas) * cpuOf(v.Demand)
		got += float64(len(r.On[i])) * cpuOf(v.Demand)
		for _, w := range r.On[i] {
			if used[w] == (api.Resources{}) {
				empty--
			}
			used[w].CPU += v.Demand.CPU
			used[w].Memory += v.Demand.Memory
		}
	}
	q.PlacedCPU, q.Empty = ratio(got, asked), ratio(float64(empty), float64(len(s.Workers)))
	q.Violated = violated(r)
	q.Expected, q.Unserved = expected(r)
	q.Unfair, q.Unmet = fairness(r)
	q.Fragments = fragments(s, used)
	q.FragmentsGPU, q.PlacedGPU = gpus(r, used)
	return q
}

func ratio(a, of float64) float64 {
	if of == 0 {
		return math.NaN()
	}
	return a / of
}

// violated is the share of agreements for which no instance of the other service is near enough.
func violated(r *Result) float64 {
	s := r.Scenario
	if s.RTT == nil {
		return math.NaN()
	}
	index := map[string]int{}
	for i, v := range s.Services {
		index[v.Name] = i
	}
	bad, all := 0, 0
	for i, v := range s.Services {
		for _, n := range v.Near {
			to, known := index[n.To]
			for _, w := range r.On[i] {
				all++
				if !known || !slices.ContainsFunc(r.On[to],
					func(o int) bool { return s.RTT(s.Workers[w].Site, s.Workers[o].Site) <= n.Within }) {
					bad++
				}
			}
		}
	}
	return ratio(float64(bad), float64(all))
}

// portions of each user's requests in the search for the equilibrium.
const portions = 10

// expected is the mean time of a request in ms, and the share that nobody can serve.
func expected(r *Result) (ms, unserved float64) {
	s := r.Scenario
	var total, lost, sum float64
	for i, v := range s.Services {
		if v.Rate <= 0 || s.RTT == nil {
			continue
		}
		total += v.Rate
		on := r.On[i]
		load, can, alone := make([]float64, len(on)), make([]float64, len(on)), make([]float64, len(on))
		for k, w := range on {
			cores := cpuOf(v.Demand)
			alone[k] = 1e3 * v.Work / (s.Workers[w].Speed * min(1, cores))
			can[k] = cores * s.Workers[w].Speed / v.Work
		}
		piece := v.Rate / float64(len(v.Users)*portions)
		sent := map[[2]int]float64{} // by site of the user and replica
		for range portions {
			for _, u := range v.Users {
				best, least := -1, math.Inf(1)
				for k, w := range on {
					busy := (load[k] + piece) / can[k]
					if t := s.RTT(u, s.Workers[w].Site) + alone[k]/(1-busy); busy < 1 && t < least {
						best, least = k, t
					}
				}
				if best < 0 {
					lost += piece
					continue
				}
				load[best] += piece
				sent[[2]int{u, best}] += piece
			}
		}
		// In a fixed order: sums of floating-point numbers depend on it.
		for k, w := range on {
			for _, u := range v.Users {
				sum += sent[[2]int{u, k}] * (s.RTT(u, s.Workers[w].Site) + alone[k]/(1-load[k]/can[k]))
				delete(sent, [2]int{u, k})
			}
		}
	}
	return ratio(sum, total-lost), ratio(lost, total)
}

// fairness is U and I of cores and GiB.
func fairness(r *Result) (unfair, unmet [2]float64) {
	s := r.Scenario
	n := float64(len(s.Services))
	for j := range unfair {
		amount := func(d api.Resources) float64 {
			if j == 0 {
				return cpuOf(d)
			}
			return float64(d.Memory) / gib
		}
		capacity := 0.0
		for i := range s.Workers {
			capacity += amount(s.Workers[i].Capacity)
		}
		asked := make([]float64, len(s.Services))
		for i, v := range s.Services {
			asked[i] = float64(v.Replicas) * amount(v.Demand)
		}
		fair := MaxMin(asked, capacity)
		var off, wanted, got float64
		for i, v := range s.Services {
			has := float64(len(r.On[i])) * amount(v.Demand)
			off += math.Abs(has - fair[i])
			wanted, got = wanted+asked[i], got+has
		}
		unfair[j], unmet[j] = ratio(off, n), ratio(math.Abs(wanted-got), n)
	}
	return unfair, unmet
}

// MaxMin divides a capacity so that nobody gets more than was asked for, and nobody who is short
// gets less than another.
func MaxMin(asked []float64, capacity float64) []float64 {
	order := make([]int, len(asked))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(asked[a], asked[b]), cmp.Compare(a, b)) })
	out := make([]float64, len(asked))
	for k, i := range order {
		out[i] = max(0, min(asked[i], capacity/float64(len(order)-k)))
		capacity -= out[i]
	}
	return out
}

// fragments is the share of all resources that is free but that an instance drawn at random cannot
// use.
func fragments(s *Scenario, used []api.Resources) (share [2]float64) {
	kinds := map[api.Resources]float64{}
	all := 0.0
	for _, v := range s.Services {
		kinds[v.Demand] += float64(v.Replicas)
		all += float64(v.Replicas)
	}
	order := make([]api.Resources, 0, len(kinds))
	for d := range kinds {
		order = append(order, d)
	}
	slices.SortFunc(order, func(a, b api.Resources) int {
		return cmp.Or(cmp.Compare(a.CPU, b.CPU), cmp.Compare(a.Memory, b.Memory))
	})
	var total, lost [2]float64
	for i := range s.Workers {
		c := s.Workers[i].Capacity
		left := [2]float64{float64(c.CPU - used[i].CPU), float64(c.Memory - used[i].Memory)}
		missed := 0.0
		for _, d := range order {
			if float64(d.CPU) > left[0] || float64(d.Memory) > left[1] {
				missed += kinds[d] / all
			}
		}
		total[0], total[1] = total[0]+float64(c.CPU), total[1]+float64(c.Memory)
		for j := range left {
			lost[j] += left[j] * missed
		}
	}
	return [2]float64{ratio(lost[0], total[0]), ratio(lost[1], total[1])}
}

// gpus is the share of all GPUs that is free but useless, and the share of those asked for that was
// placed.
func gpus(r *Result, used []api.Resources) (fragments, placed float64) {
	s := r.Scenario
	kinds := map[api.Resources]float64{}
	var all, asked, got float64
	for i, v := range s.Services {
		if v.Demand.VGPUs > 0 {
			kinds[v.Demand] += float64(v.Replicas)
			all += float64(v.Replicas)
			asked += float64(v.Replicas) * float64(v.Demand.VGPUs)
			got += float64(len(r.On[i])) * float64(v.Demand.VGPUs)
		}
	}
	order := slices.SortedFunc(maps.Keys(kinds), func(a, b api.Resources) int {
		return cmp.Or(cmp.Compare(a.CPU, b.CPU), cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.VGPUs, b.VGPUs))
	})
	var total, lost float64
	for i := range s.Workers {
		c := s.Workers[i].Capacity
		total += float64(c.VGPUs)
		for _, d := range order {
			_, lacking := device.Give(r.Devices[i], d, nil)
			fits := lacking == "" && d.CPU <= c.CPU-used[i].CPU && d.Memory <= c.Memory-used[i].Memory
			for _, x := range r.Devices[i] {
				if left := 1000 - x.Used; !fits || left < min(d.VGPUs, 1000) {
					lost += float64(left) * kinds[d] / all
				}
			}
		}
	}
	return ratio(lost, total), ratio(got, asked)
}
