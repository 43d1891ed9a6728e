package cluster

import (
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// start makes i the next incarnation of its instance, of the program that its
// share asks for, and orders it.
func (t *tx) start(i wire.Instance, s *wire.Share) {
	become(&i, nextIncarnation(&i))
	i.Revision, i.Restarted, i.Program = s.Revision, restartOf(s, i.Ordinal).N, t.program(s.Spec)
	i.Restarts, i.Asleep = 0, false
	pin(&i, s)
	t.put(i)
	t.giveOrder(&i, s)
}

// program is the id of what a service runs, worked out once: it is a hash of much.
func (t *tx) program(s *api.Service) string {
	id, ok := t.programs[s]
	if !ok {
		if t.programs == nil {
			t.programs = map[*api.Service]string{}
		}
		id = s.ProgramID()
		t.programs[s] = id
	}
	return id
}

// restartOf is the latest restart that was asked for of an ordinal; the zero one
// if none was.
func restartOf(s *wire.Share, ordinal int) wire.Restart {
	var last wire.Restart
	if s.Restart != nil {
		last = *s.Restart
	}
	if r, ok := s.RestartOf[ordinal]; ok && r.N > last.N {
		last = r
	}
	return last
}

// asked says in words who wanted a restart, and why.
func asked(r wire.Restart) string {
	what := "restarted"
	if r.By != "" {
		what += " by " + r.By
	}
	if r.Why != "" {
		what += ": " + r.Why
	}
	return what
}

// runAgain says why an instance that has completed is to run once more, "" if it
// is not.
func runAgain(i *wire.Instance, s *wire.Share) string {
	if i == nil || i.State != wire.Terminated || i.Reason != completed {
		return ""
	}
	if r := restartOf(s, i.Ordinal); i.Restarted < r.N {
		return asked(r)
	}
	// A record of an older build does not say what it ran.
	if i.Revision != s.Revision && i.Program != "" && i.Program != s.Spec.ProgramID() {
		return fmt.Sprintf("completed, and another program since revision %d", s.Revision)
	}
	return ""
}

// roll brings instances to the revision of their share, and starts again those of
// which that was asked: what does not run at once, what runs one at a time, and
// only while all its siblings are ready. What may not stay where it is by the new
// revision is placed again.
func (t *tx) roll(now time.Time) {
	for _, key := range records.SortedKeys(t.m.shares) {
		s := t.m.shares[key]
		var behind *wire.Instance
		var moves string // why behind may not stay where it is
		var another bool // behind is to be of another program
		calm := true
		for _, o := range ordinals(s) {
			i := t.inst(instanceID(s.App, s.Service, o))
			if i == nil {
				continue
			}
			next := *i
			next.Revision = s.Revision
			if i.State == wire.Terminated { // completed, by the same program (fulfil)
				t.put(next)
				continue
			}
			old := t.m.orders[i.Worker+"."+i.ID]
			update := otherProgram(old, s) || (i.Revision != s.Revision && (old == nil || !old.Spec.SameProgram(s.Spec)))
			if underWay(i) || t.waits[i.ID] {
				// It moves, and what starts elsewhere is up to date already.
				if !update {
					t.put(next)
				}
				calm = calm && settledIn(i)
				continue
			}
			misfit := ""
			if i.Revision != s.Revision || update {
				misfit = t.misfit(i, s)
			}
			if misfit == "" && update && i.State == wire.WorkerScheduled {
				misfit = t.crowded(i, s)
			}
			switch {
			case !update && misfit == "" && i.Restarted >= restartOf(s, o).N:
				t.put(next) // with its new terms, if there are any
				calm = calm && settledIn(i)
			case i.State == wire.WorkerScheduled && misfit != "":
				t.move(*i, s, misfit, now)
				calm = false
			case i.State == wire.WorkerScheduled: // not started yet, so nobody misses it
				t.start(next, s)
				calm = false
			case i.State != wire.Running:
				next.LastExit, next.Avoid = nil, nil // they say nothing about the new run
				t.put(next)
				calm = false
			case i.Unreachable: // nobody is there to do it
				calm = false
			case behind == nil || (behind.Ready && !i.Ready):
				behind, moves, another = i, misfit, update // one that does not answer first: nobody misses it
			}
		}
		if behind == nil || (!calm && behind.Ready) {
			continue
		}
		if moves == "" && another {
			if moves = t.crowded(behind, s); moves != "" && t.kept(*behind, s, moves) {
				continue
			}
		}
		if moves != "" {
			t.move(*behind, s, moves, now)
			continue
		}
		why := asked(restartOf(s, behind.Ordinal))
		if behind.Revision != s.Revision || behind.Restarted >= restartOf(s, behind.Ordinal).N {
			why = fmt.Sprintf("updating to revision %d", s.Revision)
		}
		t.start(t.advance(*behind, wire.WorkerScheduled, now, t.m.tier(), why), s)
	}
}

// crowded says why a worker has no room for what an instance of it is to be, ""
// if it has. The others there count as they were ordered, not yet as they are to
// be.
func (t *tx) crowded(i *wire.Instance, s *wire.Share) string {
	w, use := t.m.workers[i.Worker], t.used()[i.Worker]
	if w == nil || use == nil {
		return ""
	}
	// Most often there is room for all as they are to be, this one among them.
	if ok, _ := place.Fits(w.Info.Capacity, use.used); ok && !place.AsksDevices(s.Spec) {
		return ""
	}
	if _, lacking := t.devicesFor(i, s); lacking != "" {
		return "is full: " + lacking
	}
	var others api.Resources
	for key, o := range records.Merged(t.m.orders, t.orders) {
		if o.ID != i.ID && o.Spec != nil && strings.HasPrefix(key, i.Worker+".") {
			others = place.Add(others, o.Spec.Resources)
		}
	}
	if ok, lacking := place.Fits(place.Sub(w.Info.Capacity, others), s.Spec.Resources); !ok {
		return "is full: " + lacking
	}
	return ""
}

// kept lets an instance go on as it is for which no worker has room as it is to be.
// False if there is one.
func (t *tx) kept(i wire.Instance, s *wire.Share, full string) bool {
	why := "its volume is there"
	if i.Pinned == "" {
		d := t.schedule(&i, s, nil)
		if d.Chosen != "" {
			return false
		}
		why = d.Reason
	}
	i.Reason = fmt.Sprintf("it goes on as it is, for want of room for revision %d: its worker %s; %s", s.Revision, full, why)
	t.put(i)
	return true
}

// otherProgram: an application that was deleted and applied anew begins again
// with revision 1, and a cluster that was away may see only that.
func otherProgram(o *wire.Order, s *wire.Share) bool {
	return o != nil && o.Revision == s.Revision && o.Spec != s.Spec && !o.Spec.SameProgram(s.Spec)
}
