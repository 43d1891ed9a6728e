package place

import (
	"cmp"
	"math"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// candidate is a feasible worker in the running.
type candidate struct {
	view    *WorkerView
	has     int           // instances of the service
	same    int           // the same, zero where the service does not spread, or not first of all
	latency time.Duration // expected, zero where it does not count
	score   float64       // by the scheduler: smaller is better
	// packed is the rom score where it decides between equals.
	packed float64
	after  int                // as same, where the score counts first
	left   [resources]float64 // the terms of the score
	key    uint64             // breaks ties: how far the worker is on the ring from the instance
	// Of a plugin: that it named the worker for this instance, and its score, the
	// highest first.
	named  bool
	advice float64
}

// Schedule is the cluster's step: it chooses a worker for one instance. Workers
// are filtered in the order suspect, cordoned, pinned, runtime, architecture,
// affinity.labels, location, affinity.polygon, anti_affinity.labels,
// anti_affinity.service, volumes, device types, network, avoid, latency, distance, devices,
// then the resources (cpu, memory, disk, vgpus, vtpus, bandwidth in and out); of the
// others the first by
//
//  1. how many instances of the service it has, fewest first (unless
//     Request.Spread is "none"),
//  2. the sum of the expected round trips to what it wishes to be near, with the
//     scheduler ldp also to what it must be near, shortest first,
//  3. the score of the scheduler. That of rom, and of ldp, is the largest share of any
//     of its resources that would be left over, smallest first (best fit), of bandwidth
//     only where the instance asks for it; for who asks for accelerators it is how much
//     would go to waste of them and of what they need (unmatched). Whoever has
//     accelerators for which it does not ask comes after all others (+1), so that those
//     stay free for who does. The others are in schedulers.go. With throughput and drf
//     it counts before the number of instances,
//  4. the place of its id on a ring of hashes: who comes next after the place of the
//     instance id, then the worker id
//
// is chosen; with the scheduler plugin see advised. A worker to be avoided stays out
// even where no other is left; when to forgive it is the caller's decision. Workers' ids must be distinct. The cost is one
// pass; only a record that carries its inputs (MaxInputs) copies them.
func Schedule(workers []WorkerView, req Request) Decision {
	req = cleanRequest(req)
	d := Decision{V: wire.Version, Kind: KindWorker, Request: req, Candidates: len(workers)}
	if len(workers) <= MaxInputs {
		d.Workers = cleanWorkers(workers, &req)
		workers = d.Workers
	} else {
		d.InputsOmitted = len(workers)
	}
	if req.Scheduler == schedulerPlugin {
		return advised(workers, req, d)
	}
	if req.Scheduler == NearestDemand && req.Traffic != nil {
		return nearest(workers, req, d)
	}
	how := scorerOf(req.Scheduler)
	if how == nil {
		d.Reason = noScheduler(req.Scheduler)
		return d
	}

	s := newScan(how, &d.Request)
	for i := range workers {
		s.look(&workers[i], &workers[i])
	}
	d.conclude(how, s.best[:s.n], s.sieve)
	return d
}

// scan looks at workers one by one and keeps the best.
type scan struct {
	how    *scorer
	req    *Request
	avoid  map[string]bool
	sieve  *sieve
	demand vec
	soft   bool
	seed   uint64
	best   [maxRanked]candidate
	n      int
}

// newScan begins to look for a worker for a request that was cleaned.
func newScan(how *scorer, req *Request) scan {
	return scan{
		how: how, req: req, avoid: setOf(req.Avoid), sieve: newSieve(false, req),
		demand: toVec(req.Demand), soft: req.Spread != "none", seed: ringOf(req.Instance),
	}
}

// look considers a worker. kept is what is kept of it where it is one of the best: the
// same, or what w is a copy of.
func (s *scan) look(w, kept *WorkerView) {
	free := freeOf(w)
	removed := reject(w, s.req, s.avoid, s.demand, free)
	if removed.filter != passed {
		s.sieve.remove(removed, w.ID)
		return
	}
	s.try(candidate{view: kept, latency: removed.far.rtt}, fit{toVec(w.Capacity), free, s.demand, cleanRate(w.Throughput)}, max(0, w.Same))
}

// try puts a worker that fits among the best if it is one of them.
func (s *scan) try(c candidate, f fit, same int) {
	if worst := &s.best[maxRanked-1]; s.n == maxRanked && !s.how.first && (!s.soft || same >= worst.same) {
		if s.soft && same > worst.same || c.latency > worst.latency {
			return // by what counts before the score
		}
	}
	s.how.judge(&c, f, same, s.soft)
	if s.n == maxRanked && c.compare(&s.best[s.n-1]) > 0 {
		return
	}
	c.key = ringOf(c.view.ID) - s.seed
	s.n = insert(&s.best, s.n, c)
}

// conclude writes into the record who is best, and what the sieve removed.
func (d *Decision) conclude(how *scorer, best []candidate, sieve *sieve) {
	demand := toVec(d.Request.Demand)
	for i := range best {
		r := how.shown(&best[i], &demand)
		best[i].rankLatency(&r, &d.Request)
		d.Ranked = append(d.Ranked, r)
	}
	d.Filtered = sieve.filters()
	if len(best) > 0 {
		d.Chosen = best[0].view.ID
	} else {
		d.Reason = sieve.workerReason(d.Candidates)
	}
}

// reject names the first filter that removes a worker, or passed, with the expected
// latency to all that it must be near.
func reject(w *WorkerView, req *Request, avoid map[string]bool, demand, free vec) removal {
	var latency time.Duration
	if r := standing(w, req); r.filter != passed {
		return r
	}
	if avoid[w.ID] {
		return removal{filter: fAvoid}
	}
	if len(req.Latency) > 0 {
		var r removal
		if latency, r = tooFar(w, req); r.filter != passed {
			return r
		}
	}
	if asksDevices(demand, req.Devices) {
		for n := range needs(demand, req.Devices) {
			if held, left := n.take(w.Devices); held == nil {
				return removal{filter: fTaken, note: n.short(left)}
			}
		}
	}
	for j := range resources {
		if demand[j] > free[j] {
			return removal{filter: fFirstWorkerResource + j, free: free[j]}
		}
	}
	return removal{filter: passed, far: far{rtt: latency}}
}

// standing is the part of reject that does not change from instance to instance of a
// service: a Fleet looks at it once.
func standing(w *WorkerView, req *Request) removal {
	switch {
	case w.Suspect:
		return removal{filter: fSuspect}
	case w.Cordoned:
		return removal{filter: fWorkerCordoned}
	case req.Pinned != "" && req.Pinned != w.ID:
		return removal{filter: fPinned}
	}
	return unfit(w, req)
}

// rom is the share of each resource that would be left over, and the largest of
// them. A resource that the worker does not have at all does not count (a demand
// for it has already been rejected), nor do accelerators and bandwidth that are not
// asked for: of these most instances leave everything over. For who asks for
// accelerators the score is what would go to waste of them, see unmatched.
func rom(capacity, free, demand vec) (score float64, left [resources]float64) {
	spared := 0.0
	for j := range resources {
		switch {
		case capacity[j] <= 0:
		case j > rDisk && demand[j] == 0:
			if j == rGPU || j == rTPU {
				spared = 1
			}
		default:
			left[j] = float64(free[j]-demand[j]) / float64(capacity[j])
			score = max(score, left[j])
		}
	}
	if demand[rGPU] > 0 || demand[rTPU] > 0 {
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
func unmatched(capacity, demand *vec, left *[resources]float64) float64 {
	rest := 1.0 // of what accelerators need, that of which the least is left
	for j := range rDisk + 1 {
		if capacity[j] > 0 {
			rest = min(rest, left[j])
		}
	}
	waste := 0.0
	for _, j := range accelerators {
		if demand[j] > 0 && capacity[j] > 0 {
			waste += (math.Abs(left[j]-rest) + wholeLeft*left[j]) * float64(capacity[j]) / whole
		}
	}
	return waste / (1 + waste)
}

// compare orders by what the scheduler made of them, but for ties: negative where c is better than o.
func (c *candidate) compare(o *candidate) int {
	switch {
	case c.same != o.same:
		return c.same - o.same
	case c.latency < o.latency:
		return -1
	case c.latency > o.latency:
		return 1
	case c.score < o.score:
		return -1
	case c.score > o.score:
		return 1
	case c.packed != o.packed:
		return cmp.Compare(c.packed, o.packed)
	}
	return c.after - o.after
}

func (c *candidate) before(o *candidate) bool {
	if r := c.compare(o); r != 0 {
		return r < 0
	}
	if c.key != o.key {
		return c.key < o.key
	}
	return c.view.ID < o.view.ID
}

// insert puts c in its place among the best n and returns their new number.
func insert(best *[maxRanked]candidate, n int, c candidate) int {
	if n == maxRanked {
		if !c.before(&best[n-1]) {
			return n
		}
		n--
	}
	i := n
	for ; i > 0 && c.before(&best[i-1]); i-- {
		best[i] = best[i-1]
	}
	best[i] = c
	return n + 1
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// fnv1a continues the 64-bit FNV-1a hash h with s and a separator. It is the
// same on every machine and in every process, so that a replayed decision is.
func fnv1a(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h * fnvPrime // as if followed by a zero byte
}

// ringOf is the place of an id on the ring of hashes.
func ringOf(id string) uint64 { return mix(fnv1a(fnvOffset, id)) }

// mix spreads every bit over all others (the finaliser of MurmurHash3). Without
// it ids that differ in the last character only, as those of workers do, win
// ties by that character: w8 and w9 four times as often as w0 to w7.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
