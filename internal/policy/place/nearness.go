package place

import (
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/wire"
)

// nearness is what a decision by distance asks of the workers that pass a constraint index, side by
// side: it looks at all of them, and most of its time would go by waiting for memory.
type nearness struct {
	rows []nearRow
	at   map[string]int // in rows, by id
	flag []uint8        // of a decision: what this request alone says of a worker
	same []int          // of a decision: how many of the service a worker has
}

// nearRow is one worker.
type nearRow struct {
	coord          wire.Coordinate
	known          bool // coord is
	location       *api.Point
	view           *WorkerView
	free, capacity amount.Vec
}

// Flags of a worker in a decision.
const (
	flagConflict = 1 << iota // it runs what is kept apart from the service
	flagAvoid                // it is to be avoided
)

// put brings a worker up to date that is where a constraint index has it. It does nothing on nil.
func (n *nearness) put(w *WorkerView, s *indexEntry) {
	if n == nil {
		return
	}
	if s.group != passing {
		n.remove(w.ID)
		return
	}
	i, there := n.at[w.ID]
	if !there {
		i = len(n.rows)
		n.at[w.ID] = i
		n.rows = append(n.rows, nearRow{})
	}
	r := nearRow{location: w.Location, view: w, free: s.row.Free, capacity: s.row.Capacity}
	if w.Coord != nil {
		r.coord, r.known = *w.Coord, true
	}
	n.rows[i] = r
}

// remove takes a worker out. It does nothing on nil.
func (n *nearness) remove(id string) {
	if n == nil {
		return
	}
	i, there := n.at[id]
	if !there {
		return
	}
	last := len(n.rows) - 1
	n.rows[i] = n.rows[last]
	n.at[n.rows[i].view.ID] = i
	n.rows = n.rows[:last]
	delete(n.at, id)
}

// newNearness is that of the workers that pass a constraint index.
func newNearness(f *Fleet, l *constraintIndex) *nearness {
	n := &nearness{at: make(map[string]int, len(l.at)), rows: make([]nearRow, 0, len(l.at))}
	for id, s := range l.at {
		n.put(f.views[id], &s)
	}
	return n
}

// byNearness decides where something must be near, or the nearest is asked for; false
// where it cannot.
func (f *Fleet) byNearness(service string, req *Request) (Decision, bool) {
	how := scorerOf(req.Scheduler)
	near := req.Scheduler == LDP || len(req.Latency) > 0 && how != nil && !how.scan
	if !near || len(f.views) <= f.limits.small || req.Pinned != "" || asksDevices(amount.ToVec(req.Demand), req.Devices) {
		return Decision{}, false
	}
	l := f.indexFor(service, req)
	if l == nil {
		return Decision{}, false
	}
	l.last = f.clock
	if l.near == nil {
		l.near = newNearness(f, l)
	}
	s := newScan(how, req)
	s.log = l.filterLog(f, service, req)
	if !s.near(f, l, service) {
		return Decision{}, false
	}
	d := Decision{V: wire.Version, Kind: KindWorker, Request: *req, Candidates: len(f.views), InputsOmitted: len(f.views)}
	d.conclude(how, s.best[:s.n], s.log)
	return d, true
}

// near looks at all that pass a constraint index; false where the index does not say which filter
// removes a worker.
func (s *scan) near(f *Fleet, l *constraintIndex, service string) bool {
	n, of := l.near, f.marks[service]
	n.flag, n.same = clean(n.flag, len(n.rows)), clean(n.same, len(n.rows))
	for id, m := range of {
		at := l.at[id]
		if len(m.conflicts) > 0 && !l.marked && at.group > fConflicts && at.group != passing {
			return false // it is removed by another filter than in the index
		}
		if i, there := n.at[id]; there {
			if n.same[i] = m.same; len(m.conflicts) > 0 {
				n.flag[i] |= flagConflict
			}
		}
	}
	for id := range s.avoid {
		if i, there := n.at[id]; there {
			n.flag[i] |= flagAvoid
		}
	}
	var w WorkerView // as much of each as matters to a distance
	for i := range n.rows {
		r := &n.rows[i]
		if flag := n.flag[i]; flag != 0 {
			why := removal{filter: fAvoid}
			if flag&flagConflict != 0 {
				why = removal{filter: fConflicts, has: of[r.view.ID].conflicts}
			}
			s.log.remove(why, r.view.ID)
			continue
		}
		var latency time.Duration
		if len(s.req.Latency) > 0 {
			w.Location, w.Coord = r.location, nil
			if w.ID = r.view.ID; r.known {
				w.Coord = &r.coord
			}
			expected, why := tooFar(&w, s.req)
			if why.filter != passed {
				s.log.remove(why, w.ID)
				continue
			}
			latency = expected
		}
		if j := amount.FirstShort(&s.demand, &r.free); j >= 0 {
			s.log.remove(removal{filter: fFirstWorkerResource + j, free: r.free[j]}, r.view.ID)
			continue
		}
		s.try(candidate{view: r.view, latency: latency}, fit{capacity: r.capacity, free: r.free, demand: s.demand}, n.same[i])
	}
	return true
}

// scan goes through all workers.
func (f *Fleet) scan(service string, req Request) Decision {
	how := scorerOf(req.Scheduler)
	byTraffic := req.Scheduler == NearestDemand && req.Traffic != nil // who is best depends on the others
	if how == nil || byTraffic || len(f.views) <= f.limits.small {    // the record has them all
		return Schedule(f.Views(service), req)
	}
	d := Decision{V: wire.Version, Kind: KindWorker, Request: req, Candidates: len(f.views), InputsOmitted: len(f.views)}
	s, of, rates := newScan(how, &d.Request), f.marks[service], f.rates[service]
	var v WorkerView
	for id, w := range f.views {
		m, marked := of[id]
		if serves := rates[id]; marked || serves > 0 {
			v = *w
			v.Same, v.Conflicts, v.Throughput = m.same, m.conflicts, serves
			s.look(&v, w)
		} else {
			s.look(w, w)
		}
	}
	d.conclude(how, s.best[:s.n], s.log)
	return d
}
