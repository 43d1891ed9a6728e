package place

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/waste"
)

// LDP is the scheduler that ranks by expected latency.
const LDP = "ldp"

// NearestDemand is the scheduler that places replicas where requests come from.
const NearestDemand = api.NearestDemand

// Names of the schedulers that score workers one by one.
const (
	ROM          = "rom"
	Spread       = "spread"
	Throughput   = "throughput"
	DRF          = "drf"
	DRFWorstFit  = "drf-worstfit"
	DRFBestFit   = "drf-bestfit"
	DRFTightest  = "drf-tightest"
	drfOfAnyKind = "drf-"
)

// scorer is how a scheduler ranks the workers that fit.
type scorer struct {
	// score of a worker, and its terms.
	score func(f fit) (score float64, terms [amount.Kinds]float64)
	// terms are the names of the terms, nil: those of the resources.
	terms []string
	// higher: the highest score is best, else the lowest.
	higher bool
	// first: the score counts before the number of instances of the service.
	first bool
	// packed: rom breaks ties of score.
	packed bool
	// scan: it needs more of a worker than an index has.
	scan bool
}

// fit is a worker and a demand that it can satisfy.
type fit struct {
	capacity, free, demand amount.Vec
	throughput             float64
}

// scorers by the name of the scheduler.
var scorers = map[string]*scorer{
	ROM:    {score: romOf},
	LDP:    {score: romOf, scan: true},
	Spread: {score: leastAndBalanced, terms: []string{"least_allocated", "balanced"}, higher: true},
	Throughput: {score: profiled, terms: []string{"requests_per_second"}, higher: true, first: true, packed: true,
		scan: true},
	DRF:         {score: alignment, higher: true, first: true},
	DRFWorstFit: {score: leftOver, higher: true, first: true},
	DRFBestFit:  {score: leftOfFree, higher: true, first: true},
	DRFTightest: {score: leftOver, first: true},
	// Without known traffic it decides as rom.
	NearestDemand: {score: romOf, scan: true},
}

func romOf(f fit) (float64, [amount.Kinds]float64) {
	return waste.BestFit(&f.capacity, &f.free, &f.demand)
}

// scorerOf returns the scorer that a request asks for, "" is rom; nil if there is none.
func scorerOf(req *Request) *scorer {
	how := scorers[cmp.Or(req.Scheduler, ROM)]
	if how == scorers[ROM] && len(req.Usual) > 0 {
		return &scorer{score: func(f fit) (float64, [amount.Kinds]float64) {
			_, left := romOf(f)
			even, _ := leastAndBalanced(f)
			return req.Usual.Score(&f.capacity, &f.free, &f.demand, even/100), left
		}}
	}
	return how
}

// IsDRF says whether a scheduler decides in rounds, see turn.Round.
func IsDRF(name string) bool {
	return name == DRF || name == NearestDemand || strings.HasPrefix(name, drfOfAnyKind)
}

func noScheduler(name string) string {
	return fmt.Sprintf("this cluster has no scheduler %q: use rom", name)
}

// kubernetes is how many resources the default scheduler of Kubernetes scores: the first
// two, cpu and memory.
const kubernetes = 2

// leastAndBalanced is the default of Kubernetes: the sum of two scores from 0 to 100 over
// cpu and memory with the instance placed: least_allocated, the mean of the free shares,
// and balanced, which falls with the deviation of the used shares.
func leastAndBalanced(f fit) (float64, [amount.Kinds]float64) {
	var taken, mean float64
	var shares [kubernetes]float64
	n := 0
	for j := range kubernetes {
		if f.capacity[j] > 0 {
			shares[n] = min(1, float64(f.capacity[j]-f.free[j]+f.demand[j])/float64(f.capacity[j]))
			taken += shares[n]
			n++
		}
	}
	var terms [amount.Kinds]float64
	if n == 0 {
		return 0, terms
	}
	mean = taken / float64(n)
	var squares float64
	for _, s := range shares[:n] {
		squares += (s - mean) * (s - mean)
	}
	terms[0], terms[1] = 100*(1-mean), 100*(1-math.Sqrt(squares/float64(n)))
	return terms[0] + terms[1], terms
}

// profiled is the worker's throughput of the service, in requests per second.
func profiled(f fit) (float64, [amount.Kinds]float64) {
	return f.throughput, [amount.Kinds]float64{f.throughput}
}

// alignment is the sum of (a/c)·(d/c): what is free (a) points where the demand (d)
// does, both as shares of the capacity (c).
func alignment(f fit) (sum float64, terms [amount.Kinds]float64) {
	for j := range amount.Kinds {
		if c := float64(f.capacity[j]); c > 0 && amount.Counts(j, &f.demand) {
			terms[j] = float64(f.free[j]) / c * (float64(f.demand[j]) / c)
			sum += terms[j]
		}
	}
	return sum, terms
}

// leftOver is the sum of (a−d)/c. The highest is worst fit, the lowest the tightest.
func leftOver(f fit) (sum float64, terms [amount.Kinds]float64) {
	for j := range amount.Kinds {
		if c := float64(f.capacity[j]); c > 0 && amount.Counts(j, &f.demand) {
			terms[j] = float64(f.free[j]-f.demand[j]) / c
			sum += terms[j]
		}
	}
	return sum, terms
}

// leftOfFree is the sum of (a−d)/a: best fit by the formula of its paper, where the highest
// is best, although the paper's prose says that the fullest node is.
func leftOfFree(f fit) (sum float64, terms [amount.Kinds]float64) {
	for j := range amount.Kinds {
		if a := float64(f.free[j]); a > 0 && amount.Counts(j, &f.demand) {
			terms[j] = float64(f.free[j]-f.demand[j]) / a
			sum += terms[j]
		}
	}
	return sum, terms
}

// judge scores c by this scheduler. has is the number of instances of the service on the
// worker; soft is whether they count.
func (s *scorer) judge(c *candidate, f fit, has int, soft bool) {
	c.has = has
	switch {
	case soft && s.first:
		c.after = has
	case soft:
		c.same = has
	}
	if c.score, c.left = s.score(f); s.higher {
		c.score = -c.score
	}
	if s.packed {
		c.packed, _ = romOf(f)
	}
}

// shown is the score and its parts for the record.
func (s *scorer) shown(c *candidate, demand *amount.Vec) Ranked {
	r := Ranked{ID: c.view.ID, Score: c.score, Parts: map[string]float64{"same": float64(c.has)}}
	if s.higher && r.Score != 0 { // JSON keeps the sign of zero
		r.Score = -r.Score
	}
	for j := range amount.Kinds {
		switch {
		case s.terms == nil && amount.Counts(j, demand):
			r.Parts[amount.Name(j)] = c.left[j]
		case j < len(s.terms):
			r.Parts[s.terms[j]] = c.left[j]
		}
	}
	return r
}

// Schedulers returns the names that a cluster of this build knows, sorted.
func Schedulers() []string { return slices.Clone(sortedKeys(scorers)) }
