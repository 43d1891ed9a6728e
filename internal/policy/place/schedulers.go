package place

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
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
	// score of a worker, and the terms that it is made of.
	score func(f fit) (score float64, terms [amount.Kinds]float64)
	// terms are their names, nil: those of the resources.
	terms []string
	// higher: the highest score is the best, else the lowest.
	higher bool
	// first: the score counts before how many instances of the service a worker has.
	first bool
	// packed: of workers with the same score the one that fits best by rom.
	packed bool
	// scan: it asks for more of a worker than an index has.
	scan bool
}

// fit is a worker and what is demanded of it, which is there.
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
	// Where no request comes that it could be near, or none is counted, as rom.
	NearestDemand: {score: romOf, scan: true},
}

func romOf(f fit) (float64, [amount.Kinds]float64) { return rom(f.capacity, f.free, f.demand) }

// scorerOf is that of a scheduler by name, "" is rom; nil if there is none.
func scorerOf(name string) *scorer { return scorers[cmp.Or(name, ROM)] }

// IsDRF says whether a scheduler decides in rounds, see Round.
func IsDRF(name string) bool {
	return name == DRF || name == NearestDemand || strings.HasPrefix(name, drfOfAnyKind)
}

// noScheduler says that there is none of that name.
func noScheduler(name string) string {
	return fmt.Sprintf("this cluster has no scheduler %q: use rom", name)
}

// kubernetes is how many resources its default scheduler scores by: cpu and memory,
// which are the first.
const kubernetes = 2

// leastAndBalanced is the default of Kubernetes, the sum of two scores from 0 to 100,
// of cpu and memory as they would be with the instance: least_allocated, the mean of
// what is left, and balanced, which falls with the deviation of what is taken.
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

// profiled is what the worker does of the service, in requests per second.
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

// leftOfFree is the sum of (a−d)/a: best fit as its paper prints it, where the highest
// is the best, although its prose says that the fullest node is.
func leftOfFree(f fit) (sum float64, terms [amount.Kinds]float64) {
	for j := range amount.Kinds {
		if a := float64(f.free[j]); a > 0 && amount.Counts(j, &f.demand) {
			terms[j] = float64(f.free[j]-f.demand[j]) / a
			sum += terms[j]
		}
	}
	return sum, terms
}

// judge fills in what c is by this scheduler. has is how many instances of the service
// there are on the worker; soft, whether they count.
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
		c.packed, _ = rom(f.capacity, f.free, f.demand)
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

// Schedulers are the names that a cluster of this build knows, in order.
func Schedulers() []string { return slices.Clone(sortedKeys(scorers)) }

// rom is the share of each resource that would be left over, and the largest of
// them. A resource that the worker does not have at all does not count (a demand
// for it has already been rejected), nor do accelerators and bandwidth that are not
// asked for: of these most instances leave everything over. For who asks for
// accelerators the score is what would go to waste of them, see unmatched.
func rom(capacity, free, demand amount.Vec) (score float64, left [amount.Kinds]float64) {
	spared := 0.0
	for j := range amount.Kinds {
		switch {
		case capacity[j] <= 0:
		case j > amount.Disk && demand[j] == 0:
			if j == amount.GPU || j == amount.TPU {
				spared = 1
			}
		default:
			left[j] = float64(free[j]-demand[j]) / float64(capacity[j])
			score = max(score, left[j])
		}
	}
	if demand[amount.GPU] > 0 || demand[amount.TPU] > 0 {
		score = unmatched(&capacity, &demand, &left)
	}
	return score + spared, left
}

// wholeLeft is what an accelerator costs that is left over with all it needs, where one
// that is left without, or what it needs without it, costs one. That is best fit among
// workers on which as much goes to waste; where it weighs more, whole workers stay free for
// who asks for many, and fewer instances are placed (docs/lab.md has both ends).
const wholeLeft = 1. / 32

// unmatched is how many accelerators' worth of a worker would go to waste: accelerators
// that are left without cpu, memory or disk, or these without accelerators, as they are
// shared out on the worker; with wholeLeft for each that is left at all. It is mapped to
// less than 1, so that it can be compared with the score of who asks for none.
func unmatched(capacity, demand *amount.Vec, left *[amount.Kinds]float64) float64 {
	rest := 1.0 // of what accelerators need, that of which the least is left
	for j := range amount.Disk + 1 {
		if capacity[j] > 0 {
			rest = min(rest, left[j])
		}
	}
	waste := 0.0
	for _, j := range amount.Accelerators {
		if demand[j] > 0 && capacity[j] > 0 {
			waste += (math.Abs(left[j]-rest) + wholeLeft*left[j]) * float64(capacity[j]) / whole
		}
	}
	return waste / (1 + waste)
}
