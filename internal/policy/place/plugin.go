package place

import (
	"cmp"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/policy/place/index"
	"github.com/verge-edge/verge/internal/wire"
)

// schedulerPlugin is the scheduler where a third-party program ranks the workers that
// pass every filter.
const schedulerPlugin = "plugin"

// Amounts returns resources by name, in the units of amount.Vec.
func Amounts(r api.Resources) map[string]int64 {
	out := make(map[string]int64, amount.Kinds)
	for j, n := range amount.ToVec(r) {
		out[amount.Name(j)] = n
	}
	return out
}

// Free returns what instances may still reserve on a worker, as Amounts does.
func Free(w WorkerView) map[string]int64 {
	out := make(map[string]int64, amount.Kinds)
	for j, n := range freeOf(&w) {
		out[amount.Name(j)] = n
	}
	return out
}

// Feasible returns at most n workers that pass every filter of a request, in the order of
// rom without regard to spread, and how many more there are.
func Feasible(workers []WorkerView, req Request, n int) (list []WorkerView, more int) {
	req = cleanRequest(req)
	avoid := setOf(req.Avoid)
	demand, seed := amount.ToVec(req.Demand), index.RingOf(req.Instance)
	var all []candidate
	for i := range workers {
		w := workers[i]
		w.Capacity, w.Used, w.Location = amount.Clean(w.Capacity), amount.Clean(w.Used), geo.CleanPoint(w.Location)
		free := freeOf(&w)
		if reject(&w, &req, avoid, demand, free).filter != passed {
			continue
		}
		c := candidate{view: &w, key: index.RingOf(w.ID) - seed}
		c.score, c.left = romOf(fit{capacity: amount.ToVec(w.Capacity), free: free, demand: demand})
		all = append(all, c)
	}
	slices.SortFunc(all, byAdvice)
	for i := range min(n, len(all)) {
		list = append(list, *all[i].view)
	}
	return list, len(all) - len(list)
}

// advised decides by the answer of the request's plugin. The usual filters apply first,
// then workers that the plugin rejected or did not rank are removed. Of the rest it takes
// the worker named for the instance, else the one with the highest score; ties go to fewer
// instances of the service, then to rom.
func advised(workers []WorkerView, req Request, d Decision) Decision {
	a := req.Advice
	if a == nil {
		d.Reason = "plugin " + req.Plugin + " has not been asked yet"
		return d
	}
	if d.Workers == nil { // the record cannot be replayed
		short := *a
		short.Ranking, short.Rejected = nil, nil
		d.Request.Advice = &short
	}
	if a.Problem != "" {
		plain := req
		plain.Scheduler, plain.Advice = "rom", nil
		by := Schedule(workers, plain)
		by.Request, by.Workers, by.InputsOmitted = d.Request, d.Workers, d.InputsOmitted
		return by
	}
	score := make(map[string]float64, len(a.Ranking))
	for _, r := range a.Ranking {
		score[r.ID] = r.Score
	}
	avoid := setOf(req.Avoid)
	log := newFilterLog(false, &req)
	demand, soft, seed := amount.ToVec(req.Demand), req.Spread != "none", index.RingOf(req.Instance)
	var all []candidate
	for i := range workers {
		w := &workers[i]
		free := freeOf(w)
		removed := reject(w, &req, avoid, demand, free)
		of, ranked := score[w.ID]
		why, rejected := a.Rejected[w.ID]
		switch {
		case removed.filter != passed:
		case rejected:
			removed = removal{filter: fRejected, note: why}
		case !ranked && w.ID != a.Worker:
			removed = removal{filter: fUnranked}
		}
		if removed.filter != passed {
			log.remove(removed, w.ID)
			continue
		}
		c := candidate{view: w, named: w.ID == a.Worker, advice: of, key: index.RingOf(w.ID) - seed}
		if soft {
			c.same = max(0, w.Same)
		}
		c.score, c.left = romOf(fit{capacity: amount.ToVec(w.Capacity), free: free, demand: demand})
		all = append(all, c)
	}
	slices.SortFunc(all, byAdvice)
	for i := range min(len(all), maxRanked) {
		c := &all[i]
		parts := map[string]float64{"same": float64(max(0, c.view.Same)), "rom": c.score}
		if c.named {
			parts["named"] = 1
		}
		d.Ranked = append(d.Ranked, Ranked{ID: c.view.ID, Score: c.advice, Parts: parts})
	}
	d.Filtered = log.filters()
	if len(all) > 0 {
		d.Chosen = all[0].view.ID
		return d
	}
	d.Reason = log.workerReason(d.Candidates)
	if a.Reason != "" {
		d.Reason += "; plugin " + a.Plugin + ": " + a.Reason
	}
	return d
}

// byAdvice orders candidates best first: the named worker, then by the plugin's score,
// then as rom does.
func byAdvice(a, b candidate) int {
	if a.named != b.named {
		if a.named {
			return -1
		}
		return 1
	}
	if r := cmp.Compare(b.advice, a.advice); r != 0 {
		return r
	}
	if a.before(&b) {
		return -1
	}
	return 1 // never equal: the ids differ
}

// lacksPlugin says whether a cluster lacks the plugin of a request.
func lacksPlugin(a *wire.Aggregate, req *Request) bool {
	return req.Scheduler == schedulerPlugin && !slices.Contains(a.Plugins, req.Plugin)
}
