package place

import (
	"time"

	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/place/index"
)

// scan looks at workers one by one and keeps the best.
type scan struct {
	how    *scorer
	req    *Request
	avoid  map[string]bool
	log    *filterLog
	demand amount.Vec
	soft   bool
	seed   uint64
	best   [maxRanked]candidate
	n      int
}

// newScan starts a scan for a clean request.
func newScan(how *scorer, req *Request) scan {
	return scan{
		how: how, req: req, avoid: setOf(req.Avoid), log: newFilterLog(false, req),
		demand: amount.ToVec(req.Demand), soft: req.Spread != "none", seed: index.RingOf(req.Instance),
	}
}

// look considers a worker. kept is stored if it is one of the best: w itself, or what w is
// a copy of.
func (s *scan) look(w, kept *WorkerView) {
	free := freeOf(w)
	removed := reject(w, s.req, s.avoid, s.demand, free)
	if removed.filter != passed {
		s.log.remove(removed, w.ID)
		return
	}
	s.try(candidate{view: kept, latency: removed.far.rtt},
		fit{amount.ToVec(w.Capacity), free, s.demand, cleanRate(w.Throughput)}, max(0, w.Same))
}

// try puts a worker that fits among the best if it is one of them.
func (s *scan) try(c candidate, f fit, same int) {
	if worst := &s.best[maxRanked-1]; s.n == maxRanked && !s.how.first && (!s.soft || same >= worst.same) {
		if s.soft && same > worst.same || c.latency > worst.latency {
			return // worse by what counts before the score
		}
	}
	s.how.judge(&c, f, same, s.soft)
	if s.n == maxRanked && c.compare(&s.best[s.n-1]) > 0 {
		return
	}
	c.key = index.RingOf(c.view.ID) - s.seed
	s.n = insert(&s.best, s.n, c)
}

// conclude records the best and what the filters removed.
func (d *Decision) conclude(how *scorer, best []candidate, log *filterLog) {
	demand := amount.ToVec(d.Request.Demand)
	for i := range best {
		r := how.shown(&best[i], &demand)
		best[i].rankLatency(&r, &d.Request)
		d.Ranked = append(d.Ranked, r)
	}
	d.Filtered = log.filters()
	if len(best) > 0 {
		d.Chosen = best[0].view.ID
	} else {
		d.Reason = log.workerReason(d.Candidates)
	}
}

// reject returns the first filter that removes a worker, or passed with the expected latency
// to what it must be near.
func reject(w *WorkerView, req *Request, avoid map[string]bool, demand, free amount.Vec) removal {
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
	if device.Needed(demand, req.Devices) {
		for n := range device.Needs(demand, req.Devices) {
			if held, left := n.Take(w.Devices); held == nil {
				return removal{filter: fTaken, note: n.Short(left)}
			}
		}
	}
	for j := range amount.Kinds {
		if demand[j] > free[j] {
			return removal{filter: fFirstWorkerResource + j, free: free[j]}
		}
	}
	return removal{filter: passed, far: far{rtt: latency}}
}

// standing is the part of reject that is the same for all instances of a service: a Fleet
// evaluates it once.
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
