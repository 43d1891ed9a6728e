package cluster

import (
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/wire"
)

// start makes i the next incarnation of its instance, of the program that its
// share asks for, and orders it.
func (t *tx) start(i wire.Instance, s *wire.Share) {
	become(&i, nextIncarnation(&i))
	i.AllRestarts = i.Again()
	if i.Program != t.Program(s.Spec) {
		i.LastExit = nil // it says nothing about this one
	} else if s.Spec.Job == nil && ended(&i) {
		i.AllRestarts++ // in another place
	}
	i.Revision, i.Restarted, i.Program = s.Revision, restartOf(s, i.Ordinal).N, t.Program(s.Spec)
	i.Restarts, i.Asleep, i.ReadyAt = 0, false, time.Time{}
	pin(&i, s)
	// Where it begins on another worker, what that one had is not to be taken up again if
	// it returns.
	if i.Former != "" && i.Former != i.Worker && s.Spec.Pins() {
		t.leaveVolumes(&i, s, i.Former, "its worker was removed from the cluster, and it began elsewhere", "")
	}
	i.Former = ""
	t.Put(i)
	t.giveOrder(&i, s)
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
	if i == nil || !i.Completed() {
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
// revision is placed again. Those that are to be of another program take their turns
// (rollOut).
func (t *tx) roll(now time.Time) {
	for _, key := range records.SortedKeys(t.m.Shares) {
		s := t.m.Shares[key]
		if s.Spec.Job != nil {
			t.putRoll(key, nil) // it was no job when that began
			t.rollJob(s)
			continue
		}
		var late []*wire.Instance // that are to be of another program
		var behind *wire.Instance
		var moves string // why behind may not stay where it is
		calm := true
		for _, o := range ordinals(s) {
			i := t.Inst(instanceID(s.App, s.Service, o))
			if i == nil {
				continue
			}
			if i.Volumes != nil { // it is started with what is wanted then
				calm = false
				continue
			}
			next := *i
			next.Revision = s.Revision
			if i.State == wire.Terminated { // completed, by the same program (fulfil)
				t.Put(next)
				continue
			}
			old := t.m.Orders[i.Worker+"."+i.ID]
			if otherProgram(old, s) || (i.Revision != s.Revision && (old == nil || !old.Spec.SameProgram(s.Spec))) {
				late = append(late, i)
				continue
			}
			if underWay(i) || t.waits[i.ID] { // what starts elsewhere is up to date already
				t.Put(next)
				calm = calm && settledIn(i)
				continue
			}
			misfit := ""
			if i.Revision != s.Revision {
				misfit = t.misfit(i, s)
			}
			switch {
			case misfit == "" && i.Restarted >= restartOf(s, o).N:
				t.Put(next) // with its new terms, if there are any
				calm = calm && settledIn(i)
			case i.State == wire.WorkerScheduled && misfit != "":
				t.move(*i, s, misfit, now)
				calm = false
			case i.State == wire.WorkerScheduled: // not started yet, so nobody misses it
				t.start(next, s)
				calm = false
			case i.State != wire.Running:
				next.LastExit, next.Avoid = nil, nil // they say nothing about the new run
				t.Put(next)
				calm = false
			case i.Unreachable: // nobody is there to do it
				calm = false
			case behind == nil || (behind.Ready && !i.Ready):
				behind, moves = i, misfit // one that does not answer first: nobody misses it
			}
		}
		if len(late) > 0 || t.rollOf(key).open() {
			t.rollOut(key, s, late, now)
			continue
		}
		if behind == nil || (!calm && behind.Ready) {
			continue
		}
		if moves != "" {
			t.move(*behind, s, moves, now)
			continue
		}
		t.start(t.Advance(*behind, wire.WorkerScheduled, now, t.m.Tier(), asked(restartOf(s, behind.Ordinal))), s)
	}
}

// rollOut takes the rollout of a service one step further. late are the instances that
// are to be of another program.
func (t *tx) rollOut(key string, s *wire.Share, late []*wire.Instance, now time.Time) {
	var runs *wire.Instance
	for _, i := range late {
		if i.State == wire.Running && (runs == nil || i.Ready && !runs.Ready) {
			runs = i
		}
	}
	r := t.beginRoll(key, s, runs, now)
	if r == nil { // none of them runs, so that nobody misses any
		for _, i := range late {
			t.renew(*i, s, now)
		}
		return
	}
	update := t.decideRoll(key, r, s, now)
	t.putRoll(key, r)
	for _, o := range update {
		t.renew(*t.Inst(instanceID(s.App, s.Service, o)), s, now)
	}
}

// renew makes an instance one of the program that its share asks for, where there is room
// for it.
func (t *tx) renew(i wire.Instance, s *wire.Share, now time.Time) {
	next := i
	next.Revision = s.Revision
	misfit := t.misfit(&i, s)
	if misfit == "" && (i.State == wire.WorkerScheduled || i.State == wire.Running) {
		misfit = t.crowded(&i, s)
		if misfit != "" && i.State == wire.Running && t.kept(i, s, misfit) {
			return
		}
	}
	switch {
	case i.State != wire.WorkerScheduled && i.State != wire.Running:
		next.LastExit, next.Avoid = nil, nil // they say nothing about the new run
		t.Put(next)
	case misfit != "":
		t.move(i, s, misfit, now)
	case i.State == wire.WorkerScheduled: // not started yet, so nobody misses it
		t.start(next, s)
	default:
		t.start(t.AdvanceFor(i, wire.WorkerScheduled, now, t.m.Tier(), wire.CauseUpdating, fmt.Sprintf("updating to revision %d", s.Revision)), s)
	}
}

// crowded says why a worker has no room for what an instance of it is to be, ""
// if it has. The others there count as they were ordered, not yet as they are to
// be.
func (t *tx) crowded(i *wire.Instance, s *wire.Share) string {
	w, use := t.m.Workers[i.Worker], t.used()[i.Worker]
	if w == nil || use == nil {
		return ""
	}
	// Most often there is room for all as they are to be, this one among them.
	if ok, _ := amount.Fits(w.Info.Capacity, use.used); ok && !place.AsksDevices(s.Spec) {
		return ""
	}
	if _, lacking := t.devicesFor(i, s); lacking != "" {
		return "is full: " + lacking
	}
	var others api.Resources
	for key, o := range records.Merged(t.m.Orders, t.Orders) {
		if o.ID != i.ID && o.Spec != nil && strings.HasPrefix(key, i.Worker+".") {
			others = amount.Add(others, o.Spec.Resources)
		}
	}
	if ok, lacking := amount.Fits(amount.Sub(w.Info.Capacity, others), s.Spec.Resources); !ok {
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
	t.Put(i)
	return true
}

// otherProgram: an application that was deleted and applied anew begins again
// with revision 1, and a cluster that was away may see only that.
func otherProgram(o *wire.Order, s *wire.Share) bool {
	return o != nil && o.Revision == s.Revision && o.Spec != s.Spec && !o.Spec.SameProgram(s.Spec)
}
