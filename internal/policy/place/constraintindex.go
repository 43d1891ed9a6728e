package place

import (
	"slices"

	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/index"
)

// constraintIndex groups the workers by a set of constraints.
type constraintIndex struct {
	req     Request // its constraints
	service string
	marked  bool // it includes the marks of service
	// groups by the first filter that removes the workers; the last: those that pass.
	groups [fAvoid + 1]*index.Node
	at     map[string]indexEntry
	stale  map[string]bool // workers that have changed since
	near   *nearness       // of those that pass; nil until a decision needs positions
	last   uint64          // when it was used
}

// indexEntry is where a worker is in a constraintIndex.
type indexEntry struct {
	group int
	row   index.Row
}

// passing is the group of workers that satisfy all constraints.
const passing = fAvoid

func newConstraintIndex(f *Fleet, service string, marked bool, r Request) *constraintIndex {
	l := &constraintIndex{req: r, service: service, marked: marked, at: make(map[string]indexEntry, len(f.views)),
		stale: map[string]bool{}}
	var rows [len(l.groups)][]index.Row
	of := f.marks[service]
	for id, w := range f.views {
		s := l.entry(w, of[id])
		l.at[id] = s
		rows[s.group] = append(rows[s.group], s.row)
	}
	for g := range rows {
		l.groups[g] = index.Grow(rows[g])
	}
	return l
}

// entry returns the place of a worker. Of removed workers only the number and the
// smallest id matter.
func (l *constraintIndex) entry(w *WorkerView, m mark) indexEntry {
	v := *w
	if l.marked {
		v.Conflicts = m.conflicts
	} else {
		m.same = 0
	}
	if r := standing(&v, &l.req); r.filter != passed {
		return indexEntry{r.filter, index.Row{ID: w.ID, Hash: index.RingOf(w.ID)}}
	}
	return indexEntry{passing, newRow(w, m.same)}
}

// settle brings the index up to date.
func (l *constraintIndex) settle(f *Fleet) {
	for id := range l.stale {
		if w := f.views[id]; w != nil {
			l.put(w, f.marks[l.service][id])
		} else {
			l.remove(id)
		}
	}
	clear(l.stale)
}

func (l *constraintIndex) put(w *WorkerView, m mark) {
	s := l.entry(w, m)
	l.near.put(w, &s)
	old, there := l.at[w.ID]
	if there && old == s {
		return
	}
	if there {
		l.groups[old.group] = index.Remove(l.groups[old.group], &old.row)
	}
	l.at[w.ID] = s
	l.groups[s.group] = index.Insert(l.groups[s.group], s.row)
}

func (l *constraintIndex) remove(id string) {
	if old, there := l.at[id]; there {
		l.near.remove(id)
		l.groups[old.group] = index.Remove(l.groups[old.group], &old.row)
		delete(l.at, id)
	}
}

// filterLog returns the log of a request with all workers that the constraints remove.
func (l *constraintIndex) filterLog(f *Fleet, service string, req *Request) *filterLog {
	log := newFilterLog(false, req)
	for g, n := range l.groups {
		if g != passing && n != nil {
			v := *f.views[n.First]
			if l.marked {
				v.Conflicts = f.marks[service][n.First].conflicts
			}
			log.counts[g] = filterCount{n.N, n.First, standing(&v, req)}
		}
	}
	return log
}

// decide finds the best workers for a request. It is not ok if the index does not give
// the numbers of the record, which is rare.
func (l *constraintIndex) decide(f *Fleet, service string, req *Request) (s *search, log *filterLog, ok bool) {
	log = l.filterLog(f, service, req)
	s = &search{how: scorerOf(req), demand: amount.ToVec(req.Demand), soft: req.Spread != "none",
		seed: index.RingOf(req.Instance), view: func(id string) *WorkerView { return f.views[id] }}
	var short [amount.Kinds]index.Scarce
	if n := l.groups[passing]; n != nil {
		n.Lacking(&s.demand, &short)
	}
	of := f.marks[service]
	if len(req.Avoid) > 0 || !l.marked && len(of) > 0 {
		s.skip = map[string]bool{}
	}
	out := func(id string, r removal) bool { // a worker that this request alone removes
		at := l.at[id]
		if s.skip[id] = true; at.group != passing {
			return true
		}
		log.remove(r, id)
		if j := amount.FirstShort(&s.demand, &at.row.Free); j >= 0 {
			if short[j].N--; short[j].N == 0 {
				short[j] = index.Scarce{}
			} else if short[j].ID == id {
				return false // the next closest is unknown
			}
		}
		return true
	}
	var few []string // those that have some of the service
	if !l.marked {
		for id, m := range of {
			switch at := l.at[id]; {
			case len(m.conflicts) > 0 && at.group > fConflicts && at.group != passing:
				return nil, nil, false // another filter than that of the index removes it
			case len(m.conflicts) > 0:
				if !out(id, removal{filter: fConflicts, has: m.conflicts}) {
					return nil, nil, false
				}
			case at.group == passing && s.soft && m.same > 0:
				few = append(few, id)
				s.skip[id] = true
			}
		}
	}
	for i, id := range req.Avoid {
		_, there := l.at[id]
		if !there || len(of[id].conflicts) > 0 || slices.Contains(req.Avoid[:i], id) {
			continue
		}
		if !out(id, removal{filter: fAvoid}) {
			return nil, nil, false
		}
	}
	for j, c := range short {
		if c.N > 0 {
			log.counts[fFirstWorkerResource+j] = filterCount{c.N, c.ID, removal{filter: fFirstWorkerResource + j, free: c.Free}}
		}
	}
	if n := l.groups[passing]; n != nil {
		s.visit(n)
	}
	if s.n < maxRanked || s.how.first {
		for _, id := range few {
			if slices.Contains(req.Avoid, id) {
				continue
			}
			delete(s.skip, id)
			r := l.at[id].row
			r.Same = of[id].same
			s.try(&r)
		}
	}
	for i := range s.n {
		s.best[i].has = of[s.best[i].view.ID].same
	}
	return s, log, true
}
