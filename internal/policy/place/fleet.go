package place

import (
	"encoding/json"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/wire"
)

// Fleet is an index of the workers of a cluster. It decides as Schedule does over the same
// workers, in a time that hardly grows with their number. Mark sets what concerns a single
// service: how many instances of it a worker has, and which services kept apart from it.
//
// Each frequent set of constraints has an index of the workers (constraintIndex); rare ones
// scan all workers. If something must be near, all workers that satisfy the constraints are
// scanned, by the positions in the index (nearness). The zero value is an empty fleet. A
// Fleet must not be used by several goroutines at a time.
type Fleet struct {
	views   map[string]*WorkerView
	marks   map[string]map[string]mark // by service, then by worker
	rates   map[string]map[string]float64
	indexes map[string]*constraintIndex
	asked   map[string]int // how often, by key without an index
	clock   uint64         // counts decisions
	// version counts changes; refused are requests without a place, by service.
	version uint64
	refused map[string]refusal
	scratch []WorkerView
	// limits are the constants below, except in tests.
	limits struct{ small, often, marks int }
}

// mark is the state of a worker that matters to one service.
type mark struct {
	same      int
	conflicts []string
}

// refusal is a request that no worker could take. The answer stays the same until something
// changes: a full cluster asks again for every waiting instance.
type refusal struct {
	version uint64
	key     string
	d       Decision
}

const (
	// maxIndexes bounds the cost of changes and memory: an index that is asked follows each
	// change since, and takes about 200 bytes per worker.
	maxIndexes = 8
	// askedOften is the number of requests after which an index is built: that costs as much
	// as a few scans of all workers.
	askedOften = 4
	// maxAsked bounds the keys whose requests are counted.
	maxAsked = 1024
	// maxMarks is how many workers may have marks of a service before it gets an index of
	// its own, sorted by the number of instances.
	maxMarks = 64
)

// Put adds or replaces a worker. Its Same, Conflicts and Throughput are ignored, see Mark
// and Rate.
func (f *Fleet) Put(w WorkerView) {
	w.Same, w.Conflicts, w.Throughput = 0, nil, 0
	w.Capacity, w.Used, w.Location, w.Coord = amount.Clean(w.Capacity), amount.Clean(w.Used), geo.CleanPoint(w.Location),
		geo.CleanCoord(w.Coord)
	if f.views == nil {
		if f.limits.small == 0 {
			f.limits.small, f.limits.often, f.limits.marks = MaxInputs, askedOften, maxMarks
		}
		f.views, f.marks, f.indexes = map[string]*WorkerView{}, map[string]map[string]mark{}, map[string]*constraintIndex{}
		f.rates = map[string]map[string]float64{}
		f.asked, f.refused = map[string]int{}, map[string]refusal{}
	}
	f.views[w.ID] = &w
	f.changed(w.ID)
}

// Use sets what the instances on a worker reserve now. An unknown worker is ignored.
func (f *Fleet) Use(id string, used api.Resources) {
	if w := f.views[id]; w != nil {
		w.Used = amount.Clean(used)
		f.changed(id)
	}
}

// Hold sets a worker's devices with their current use. An unknown worker is ignored.
func (f *Fleet) Hold(id string, devices []device.Device) {
	if w := f.views[id]; w != nil {
		w.Devices = slices.Clone(devices)
		f.version++ // no index depends on what is taken
	}
}

// Mark sets how many instances of a service a worker has, and which services there are kept
// apart from it. It lasts until the next Mark or until the worker is removed.
func (f *Fleet) Mark(service, id string, same int, conflicts []string) {
	if f.views[id] == nil {
		return
	}
	of := f.marks[service]
	if same = max(0, same); same == 0 && len(conflicts) == 0 {
		delete(of, id)
	} else {
		if of == nil {
			of = map[string]mark{}
			f.marks[service] = of
		}
		of[id] = mark{same, conflicts}
	}
	f.version++
	for _, l := range f.indexes {
		if l.service == service && l.marked {
			l.stale[id] = true
		}
	}
}

// Rate sets a worker's throughput of a service, in requests per second, for the scheduler
// throughput. It lasts as a mark does.
func (f *Fleet) Rate(service, id string, perSecond float64) {
	if f.views[id] == nil {
		return
	}
	if f.rates[service] == nil {
		f.rates[service] = map[string]float64{}
	}
	f.rates[service][id] = cleanRate(perSecond)
}

// Remove removes a worker.
func (f *Fleet) Remove(id string) {
	if f.views[id] == nil {
		return
	}
	delete(f.views, id)
	for _, of := range f.marks {
		delete(of, id)
	}
	for _, of := range f.rates {
		delete(of, id)
	}
	f.changed(id)
}

// Len returns the number of workers.
func (f *Fleet) Len() int { return len(f.views) }

// changed notes that something is other than it was on a worker. Indexes follow when they are
// asked: until then much may change, of the same worker too.
func (f *Fleet) changed(id string) {
	f.version++
	for _, l := range f.indexes {
		l.stale[id] = true
	}
}

// Views returns the workers as a service sees them, in no order. The slice is valid until
// the next call.
func (f *Fleet) Views(service string) []WorkerView {
	f.scratch = f.scratch[:0]
	of := f.marks[service]
	for id, w := range f.views {
		v := *w
		m := of[id]
		v.Same, v.Conflicts, v.Throughput = m.same, m.conflicts, f.rates[service][id]
		f.scratch = append(f.scratch, v)
	}
	return f.scratch
}

// View returns one worker as a service sees it; false if there is no such worker.
func (f *Fleet) View(service, id string) (WorkerView, bool) {
	w := f.views[id]
	if w == nil {
		return WorkerView{}, false
	}
	v, m := *w, f.marks[service][id]
	v.Same, v.Conflicts, v.Throughput = m.same, m.conflicts, f.rates[service][id]
	return v, true
}

// Schedule chooses a worker for an instance of a service, with the same result and record
// as Schedule(f.Views(service), req).
func (f *Fleet) Schedule(service string, req Request) Decision {
	f.clock++
	req = cleanRequest(req)
	if r, ok := f.refused[service]; ok && r.version == f.version && r.key == keyOfAny(req) {
		r.d.Request = req
		return r.d
	}
	d, ok := f.byIndex(service, &req)
	if !ok {
		d, ok = f.byNearness(service, &req)
	}
	if !ok {
		d = f.scan(service, req)
	}
	if d.Chosen == "" && f.refused != nil {
		f.refused[service] = refusal{f.version, keyOfAny(req), d}
	}
	return d
}

// byIndex decides with an index; false if it cannot.
func (f *Fleet) byIndex(service string, req *Request) (Decision, bool) {
	if device.Needed(amount.ToVec(req.Demand), req.Devices) { // these need a scan
		return Decision{}, false
	}
	how := scorerOf(req)
	if len(f.views) <= f.limits.small || req.Pinned != "" || how == nil || how.scan || len(req.Latency) > 0 {
		return Decision{}, false
	}
	l := f.indexFor(service, req)
	if l == nil {
		return Decision{}, false
	}
	l.last = f.clock
	s, log, ok := l.decide(f, service, req)
	if !ok {
		return Decision{}, false
	}
	d := Decision{V: wire.Version, Kind: KindWorker, Request: *req, Candidates: len(f.views), InputsOmitted: len(f.views)}
	d.conclude(s.how, s.best[:s.n], log)
	return d, true
}

// indexFor is the index for a request, nil if there is none yet.
func (f *Fleet) indexFor(service string, req *Request) *constraintIndex {
	r := *req
	// What is not a constraint, or is evaluated in each decision.
	r.Instance, r.Count, r.Demand, r.Spread, r.Scheduler, r.Avoid, r.Latency, r.Usual = "", 0, api.Resources{}, "", "", nil, nil, nil
	key := keyOf(&r)
	if many := len(f.marks[service]) > f.limits.marks; many {
		if l := f.find(service+"\x00"+key, service, true, r); l != nil {
			return l
		}
	}
	return f.find(key, "", false, r)
}

// find returns the index of a key, and builds it once the key was asked for often enough.
func (f *Fleet) find(key, service string, marked bool, r Request) *constraintIndex {
	if l := f.indexes[key]; l != nil {
		l.settle(f)
		return l
	}
	if f.asked[key]++; f.asked[key] < f.limits.often {
		if len(f.asked) > maxAsked {
			clear(f.asked)
		}
		return nil
	}
	delete(f.asked, key)
	if len(f.indexes) >= maxIndexes {
		oldest := ""
		for k, l := range f.indexes {
			if oldest == "" || l.last < f.indexes[oldest].last || l.last == f.indexes[oldest].last && k < oldest {
				oldest = k
			}
		}
		delete(f.indexes, oldest)
	}
	l := newConstraintIndex(f, service, marked, r)
	f.indexes[key] = l
	return l
}

// keyOfAny is the same for all instances of a service.
func keyOfAny(r Request) string {
	r.Instance = ""
	return keyOf(&r)
}

// keyOf encodes the whole request. A field added to Request becomes part of the key
// automatically.
func keyOf(r *Request) string {
	b, err := json.Marshal(r)
	if err != nil {
		return r.Instance // cannot happen: JSON can express every cleaned request
	}
	return string(b)
}
