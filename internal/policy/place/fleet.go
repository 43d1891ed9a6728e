package place

import (
	"encoding/json"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/wire"
)

// Fleet is an index of the workers of a cluster: it decides as Schedule does over
// the same workers, and for many workers in a time that hardly grows with them. What
// concerns one service only (how many instances of it a worker has, and which
// services kept apart from it) is said with Mark.
//
// The workers are indexed once for each set of constraints that is asked for often
// (a constraintIndex); what is asked for seldom is looked up by going through all. Where something
// is to be near all that satisfy the constraints are gone through in any case, by what
// an index has of where they are (nearness). The zero value is an empty fleet. A Fleet must not be used by two
// goroutines at a time.
type Fleet struct {
	views   map[string]*WorkerView
	marks   map[string]map[string]mark // by service, then by worker
	rates   map[string]map[string]float64
	indexes map[string]*constraintIndex
	asked   map[string]int // for what there is no index, by its key
	clock   uint64         // counts decisions
	// version counts changes; refused are the services that had no place at one.
	version uint64
	refused map[string]refusal
	scratch []WorkerView
	// limits are the constants below, but in tests of them.
	limits struct{ small, often, marks int }
}

// mark is what a worker has that matters to one service.
type mark struct {
	same      int
	conflicts []string
}

// refusal is a request that nobody could take. As long as nothing changes it has the
// same answer: a cluster that is full asks again for all that waits.
type refusal struct {
	version uint64
	key     string
	d       Decision
}

const (
	// maxIndexes bounds what changes and memory cost: each is brought up to date with
	// every change (2 µs), and has about 200 bytes for each worker.
	maxIndexes = 8
	// askedOften is from which time on an index is made: it costs as much as going through
	// all workers some times.
	askedOften = 4
	// maxAsked bounds what is remembered of what was asked.
	maxAsked = 1024
	// maxMarks is how many workers may have instances of a service before it gets a
	// index of its own, in which they are sorted by how many they have.
	maxMarks = 64
)

// Put adds a worker or replaces what was known of it. Its Same, Conflicts and Throughput
// are not looked at, see Mark and Rate.
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
	f.changed(&w)
}

// Use says what the instances on a worker reserve now. A worker that is not there is
// left out.
func (f *Fleet) Use(id string, used api.Resources) {
	if w := f.views[id]; w != nil {
		w.Used = amount.Clean(used)
		f.changed(w)
	}
}

// Hold says what of a worker's devices is taken now. A worker that is not there is
// left out.
func (f *Fleet) Hold(id string, devices []Device) {
	if w := f.views[id]; w != nil {
		w.Devices = slices.Clone(devices)
		f.version++ // no index looks at what is taken
	}
}

// Mark says how many instances of a service a worker has, and which services that
// are kept apart from it. It lasts until it is said anew or the worker is removed.
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
			l.put(f.views[id], of[id])
		}
	}
}

// Rate says what a worker does of a service, in requests per second, for the scheduler
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

// Remove takes a worker out.
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
	f.version++
	for _, l := range f.indexes {
		l.remove(id)
	}
}

// Len is how many workers there are.
func (f *Fleet) Len() int { return len(f.views) }

func (f *Fleet) changed(w *WorkerView) {
	f.version++
	for _, l := range f.indexes {
		l.put(w, f.marks[l.service][w.ID])
	}
}

// Views are the workers as a service sees them, in no order. They may be looked at
// until the next call.
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

// View is one of them; false where there is no such worker.
func (f *Fleet) View(service, id string) (WorkerView, bool) {
	w := f.views[id]
	if w == nil {
		return WorkerView{}, false
	}
	v, m := *w, f.marks[service][id]
	v.Same, v.Conflicts, v.Throughput = m.same, m.conflicts, f.rates[service][id]
	return v, true
}

// Schedule chooses a worker for an instance of a service: the same as
// Schedule(f.Views(service), req) does, with the same record.
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

// byIndex decides with an index; false where there is none.
func (f *Fleet) byIndex(service string, req *Request) (Decision, bool) {
	if asksDevices(amount.ToVec(req.Demand), req.Devices) { // which are looked at one by one
		return Decision{}, false
	}
	how := scorerOf(req.Scheduler)
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
	// What is not a constraint, or is looked at in each decision.
	r.Instance, r.Count, r.Demand, r.Spread, r.Scheduler, r.Avoid, r.Latency = "", 0, api.Resources{}, "", "", nil, nil
	key := keyOf(&r)
	if many := len(f.marks[service]) > f.limits.marks; many {
		if l := f.find(service+"\x00"+key, service, true, r); l != nil {
			return l
		}
	}
	return f.find(key, "", false, r)
}

// find returns the index of that key, which it makes if it was asked for often.
func (f *Fleet) find(key, service string, marked bool, r Request) *constraintIndex {
	if l := f.indexes[key]; l != nil {
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

// keyOf writes all that a request asks for. A field that is added to Request is part
// of it by itself.
func keyOf(r *Request) string {
	b, err := json.Marshal(r)
	if err != nil {
		return r.Instance // no request that was cleaned has anything JSON has no word for
	}
	return string(b)
}
