package rollingupdate

import (
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/orders"
	"github.com/verge-edge/verge/internal/cluster/placement"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/wire"
)

// RunAgain says why an instance that has completed is to run once more, "" if it
// is not.
func RunAgain(i *wire.Instance, s *wire.Share) string {
	if i == nil || !i.Completed() {
		return ""
	}
	if r := state.RestartOf(s, i.Ordinal); i.Restarted < r.N {
		return state.Asked(r)
	}
	// A record of an older build does not say what it ran.
	if i.Revision != s.Revision && i.Program != "" && i.Program != s.Spec.ProgramID() {
		return fmt.Sprintf("completed, and another program since revision %d", s.Revision)
	}
	return ""
}

// Roll brings instances to the revision of their share, and starts again those of
// which that was asked: what does not run at once, what runs one at a time, and
// only while all its siblings are ready. What may not stay where it is by the new
// revision is placed again. Those that are to be of another program take their turns
// (rollOut).
func Roll(t *state.Tx, now time.Time) {
	for _, key := range records.SortedKeys(t.Model.Shares) {
		s := t.Model.Shares[key]
		if s.Spec.Job != nil {
			rollouts.Table.Put(t.Rows, key, nil) // it was no job when that began
			jobs.Roll(t, s)
			continue
		}
		var late []*wire.Instance // that are to be of another program
		var behind *wire.Instance
		var moves string // why behind may not stay where it is
		calm := true
		for _, o := range state.Ordinals(s) {
			i := t.Inst(state.InstanceID(s.App, s.Service, o))
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
			old := t.Model.Orders[i.Worker+"."+i.ID]
			if otherProgram(old, s) || (i.Revision != s.Revision && (old == nil || !old.Spec.SameProgram(s.Spec))) {
				late = append(late, i)
				continue
			}
			if state.UnderWay(i) || fleet.Pass(t).Waits[i.ID] { // what starts elsewhere is up to date already
				t.Put(next)
				calm = calm && autoscale.SettledIn(i)
				continue
			}
			misfit := ""
			if i.Revision != s.Revision {
				misfit = placement.Misfit(t, i, s)
			}
			switch {
			case misfit == "" && i.Restarted >= state.RestartOf(s, o).N:
				t.Put(next) // with its new terms, if there are any
				calm = calm && autoscale.SettledIn(i)
			case i.State == wire.WorkerScheduled && misfit != "":
				placement.Move(t, *i, s, misfit, now)
				calm = false
			case i.State == wire.WorkerScheduled: // not started yet, so nobody misses it
				orders.Start(t, next, s)
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
		if len(late) > 0 || rollouts.Table.Get(t.Rows, key).Open() {
			rollOut(t, key, s, late, now)
			continue
		}
		if behind == nil || (!calm && behind.Ready) {
			continue
		}
		if moves != "" {
			placement.Move(t, *behind, s, moves, now)
			continue
		}
		orders.Start(t, t.Advance(*behind, wire.WorkerScheduled, now, t.Model.Tier(),
			state.Asked(state.RestartOf(s, behind.Ordinal))), s)
	}
}

// rollOut takes the rollout of a service one step further. late are the instances that
// are to be of another program.
func rollOut(t *state.Tx, key string, s *wire.Share, late []*wire.Instance, now time.Time) {
	var runs *wire.Instance
	for _, i := range late {
		if i.State == wire.Running && (runs == nil || i.Ready && !runs.Ready) {
			runs = i
		}
	}
	r := rollouts.Begin(t, key, s, runs, now)
	if r == nil { // none of them runs, so that nobody misses any
		for _, i := range late {
			renew(t, *i, s, now)
		}
		return
	}
	update := rollouts.Decide(t, key, r, s, now)
	rollouts.Table.Put(t.Rows, key, r)
	for _, o := range update {
		renew(t, *t.Inst(state.InstanceID(s.App, s.Service, o)), s, now)
	}
}

// renew makes an instance one of the program that its share asks for, where there is room
// for it.
func renew(t *state.Tx, i wire.Instance, s *wire.Share, now time.Time) {
	next := i
	next.Revision = s.Revision
	misfit := placement.Misfit(t, &i, s)
	if misfit == "" && (i.State == wire.WorkerScheduled || i.State == wire.Running) {
		misfit = crowded(t, &i, s)
		if misfit != "" && i.State == wire.Running && kept(t, i, s, misfit) {
			return
		}
	}
	switch {
	case i.State != wire.WorkerScheduled && i.State != wire.Running:
		next.LastExit, next.Avoid = nil, nil // they say nothing about the new run
		t.Put(next)
	case misfit != "":
		placement.Move(t, i, s, misfit, now)
	case i.State == wire.WorkerScheduled: // not started yet, so nobody misses it
		orders.Start(t, next, s)
	default:
		orders.Start(t, t.AdvanceFor(i, wire.WorkerScheduled, now, t.Model.Tier(), wire.CauseUpdating,
			fmt.Sprintf("updating to revision %d", s.Revision)), s)
	}
}

// crowded says why a worker has no room for what an instance of it is to be, ""
// if it has. The others there count as they were ordered, not yet as they are to
// be.
func crowded(t *state.Tx, i *wire.Instance, s *wire.Share) string {
	w, use := t.Model.Workers[i.Worker], fleet.Used(t)[i.Worker]
	if w == nil || use == nil {
		return ""
	}
	// Most often there is room for all as they are to be, this one among them.
	if ok, _ := amount.Fits(w.Info.Capacity, use.Used); ok && !device.NeededBy(s.Spec) {
		return ""
	}
	if _, lacking := fleet.DevicesFor(t, i, s); lacking != "" {
		return "is full: " + lacking
	}
	var others api.Resources
	for key, o := range records.Merged(t.Model.Orders, t.Orders) {
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
func kept(t *state.Tx, i wire.Instance, s *wire.Share, full string) bool {
	why := "its volume is there"
	if i.Pinned == "" {
		d := placement.Schedule(t, &i, s, nil)
		if d.Chosen != "" {
			return false
		}
		why = d.Reason
	}
	i.Reason = fmt.Sprintf("it goes on as it is, for want of room for revision %d: its worker %s; %s", s.Revision,
		full, why)
	t.Put(i)
	return true
}

// otherProgram: an application that was deleted and applied anew begins again
// with revision 1, and a cluster that was away may see only that.
func otherProgram(o *wire.Order, s *wire.Share) bool {
	return o != nil && o.Revision == s.Revision && o.Spec != s.Spec && !o.Spec.SameProgram(s.Spec)
}
