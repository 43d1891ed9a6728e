package waste

import (
	"cmp"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
)

// MaxUsual bounds a Usual.
const MaxUsual = 32

// Usual is what instances ask for as a rule, at most MaxUsual kinds.
type Usual []Kind

// Kind is what Count instances ask for.
type Kind struct {
	CPU    api.CPU   `json:"cpu,omitempty"`
	Memory api.Bytes `json:"memory,omitempty"`
	Count  int       `json:"count"`
}

// UsualOf keeps the most frequent kinds. The Count of its keys is ignored.
func UsualOf(count map[Kind]int) Usual {
	all := make(Usual, 0, len(count))
	for k, n := range count {
		if k.Count = n; n > 0 {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.CPU, b.CPU), cmp.Compare(a.Memory, b.Memory))
	})
	return all[:min(len(all), MaxUsual)]
}

// Clean returns a copy without what is impossible, nil of nothing.
func (u Usual) Clean() (out Usual) {
	for _, k := range u[:min(len(u), MaxUsual)] {
		if k.CPU >= 0 && k.Memory >= 0 && k.Count > 0 && k.Count <= api.MaxReplicas {
			out = append(out, k)
		}
	}
	return out
}

// lost is the share of a worker's cpu and memory, 0 to 2, that is free and of no use to an
// instance drawn at random.
func (u Usual) lost(capacity *amount.Vec, cpu, memory int64) float64 {
	missed, all, free := 0, 0, 0.0
	for i := range u {
		all += u[i].Count
		if cpu < int64(u[i].CPU) || memory < int64(u[i].Memory) {
			missed += u[i].Count
		}
	}
	if capacity[amount.CPU] > 0 {
		free += float64(cpu) / float64(capacity[amount.CPU])
	}
	if capacity[amount.Memory] > 0 {
		free += float64(memory) / float64(capacity[amount.Memory])
	}
	return free * float64(missed) / float64(max(1, all))
}

// Weights, found on one half of the nodes and pods of openb (docs/experiments.md has what they
// do on the other). For an instance with accelerators: what BestFit counts, what is lost, and
// how evenly the worker is filled. For one without (bare): the latter two, and that the worker
// has accelerators, which need the rest.
const (
	withUnmatched, withLost, withEven = 1.4, 2, 0.1
	bareLost, bareEven, bareSpared    = 2, 0.1, 0.1
)

// Score of a worker for a demand that fits, lowest best. even is how evenly it would fill the
// worker, from 0 to 2.
func (u Usual) Score(capacity, free, demand *amount.Vec, even float64) float64 {
	lost := u.lost(capacity, free[amount.CPU]-demand[amount.CPU], free[amount.Memory]-demand[amount.Memory]) -
		u.lost(capacity, free[amount.CPU], free[amount.Memory])
	asked, spared := false, 0.0
	for _, j := range amount.Accelerators {
		asked = asked || demand[j] > 0
		if capacity[j] > 0 {
			spared = bareSpared
		}
	}
	if !asked {
		return bareLost*lost - bareEven*even + spared
	}
	unmatched, _ := BestFit(capacity, free, demand)
	return withUnmatched*unmatched + withLost*lost - withEven*even
}
