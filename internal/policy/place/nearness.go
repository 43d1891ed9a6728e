package place

import (
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/wire"
)

// nearness has what a decision by distance needs of the workers that pass a constraint index,
// contiguously: it scans all of them and would otherwise mostly wait for memory.
type nearness struct {
	rows []nearRow
	at   map[string]int // in rows, by id
	flag []uint8        // per decision: why this request alone removes a worker
	same []int          // per decision: instances of the service
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
	flagAvoid                // the request avoids it
)

// put updates a worker from its entry in the constraint index. It does nothing on nil.
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

// remove removes a worker. It does nothing on nil.
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

// newNearness returns the nearness of the workers that pass a constraint index.
func newNearness(f *Fleet, l *constraintIndex) *nearness {
	n := &nearness{at: make(map[string]int, len(l.at)), rows: make([]nearRow, 0, len(l.at))}
	for id, s := range l.at {
		n.put(f.views[id], &s)
	}
	return n
}

// byNearness decides if something must be near or the scheduler is ldp; false if it cannot.
func (f *Fleet) byNearness(service string, req *Request) (Decision, bool) {
	how := scorerOf(req)
	near := req.Scheduler == LDP || len(req.Latency) > 0 && how != nil && !how.scan
	if !near || len(f.views) <= f.limits.small || req.Pinned != "" || device.Needed(amount.ToVec(req.Demand), req.Devices) {
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

// near scans all workers that pass a constraint index; false if the index does not tell which
// filter removes a worker.
func (s *scan) near(f *Fleet, l *constraintIndex, service string) bool {
	n, of := l.near, f.marks[service]
	n.flag, n.same = clean(n.flag, len(n.rows)), clean(n.same, len(n.rows))
	for id, m := range of {
		at := l.at[id]
		if len(m.conflicts) > 0 && !l.marked && at.group > fConflicts && at.group != passing {
			return false // another filter than that of the index removes it
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
	var w WorkerView // only what a distance depends on
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

// scan decides by visiting all workers.
func (f *Fleet) scan(service string, req Request) Decision {
	how := scorerOf(&req)
	byTraffic := req.Scheduler == NearestDemand && req.Traffic != nil // a score depends on the other workers
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
