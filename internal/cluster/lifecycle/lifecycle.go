package lifecycle

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/moving"
	"github.com/verge-edge/verge/internal/cluster/orders"
	"github.com/verge-edge/verge/internal/cluster/placement"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumemove"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/wire"
)

// Why an instance ended: it was asked to, or it was done.
const stopped = "stopped"

// Observe takes over what the worker of an instance says about it, and what its
// silence says.
func Observe(t *state.Tx, id wire.InstanceID, now time.Time) {
	was := t.Inst(id)
	i := placement.Unpin(t, *was)
	if i.Worker == "" {
		// Given back for want of a place; the lost one may return.
		t.Put(observeMove(t, settle(t, i, now), now))
		return
	}
	if i.Volumes != nil {
		if i = volumemove.Move(t, i, now); i.Volumes != nil {
			t.Put(i)
			return
		}
	}
	w := t.Model.Workers[i.Worker]
	if w == nil {
		if i.State == wire.Running || i.State == wire.WorkerScheduled {
			i = t.Advance(i, wire.Failed, now, t.Model.Tier(), "its worker was removed")
		}
		t.Put(jobs.Attempted(t, was, observeMove(t, i, now), now))
		return
	}
	st, known := w.Status[id]
	current := known && st.Incarnation == i.Incarnation
	switch {
	case w.Suspect:
		i = silent(t, i, w, now)
	case current:
		i = heard(t, i, w, st, now)
	case i.State == wire.Running && w.EverHeard && w.Inbox.Ack().Inc != "" && !current:
		// The worker reported all it has, and this is not among it: its disk is gone
		// or somebody emptied its data directory.
		i = t.Advance(i, wire.Failed, now, t.Model.Tier(), "its worker does not know it any more")
	}
	t.Put(jobs.Attempted(t, was, observeMove(t, settle(t, i, now), now), now))
}

// PinnedAway is said of an instance whose worker is away and has its volume.
const PinnedAway = "its worker, which has its volume, is away and is waited for; if it is gone for good, verge " +
	"remove worker/NAME lets the instance begin elsewhere, with an empty volume"

// silent is what becomes of an instance whose worker is suspect.
func silent(t *state.Tx, i wire.Instance, w *state.Worker, now time.Time) wire.Instance {
	if i.State != wire.Running && i.State != wire.WorkerScheduled {
		return i
	}
	i.Unreachable = i.State == wire.Running
	if i.Pinned != "" { // what it has stored is nowhere else
		i.Cause, i.Reason = "", PinnedAway
		return i
	}
	if t.Model.Alone || now.Sub(w.Since) < t.Model.ReplaceAfter(&i, w) {
		return i
	}
	ran := i.State == wire.Running
	why := fmt.Sprintf("its worker has not reported for %s", now.Sub(w.Heard).Round(100*time.Millisecond))
	if w.Impaired() != "" {
		why = "its worker cannot vouch for it: " + w.Impaired()
	}
	i = t.Advance(i, wire.Failed, now, t.Model.Tier(), why)
	if ran {
		i.Shadow = &wire.Placement{Worker: i.Worker, Incarnation: i.Incarnation, Started: i.Since,
			Restarted: i.Restarted, Restarts: i.Restarts}
	}
	return i
}

// heard takes over the status of an instance's current incarnation.
func heard(t *state.Tx, i wire.Instance, w *state.Worker, st wire.InstanceStatus, now time.Time) wire.Instance {
	by := "worker/" + w.Info.Name
	i.Unreachable = false
	if i.Completed() && state.JobOf(t.Model, &i) != nil {
		return i // and that is all there is to know of it
	}
	if st.StartUp > 0 {
		i.StartUp = st.StartUp
	}
	if st.Asleep && (st.Phase == wire.PhasePending || st.Phase == wire.PhaseRunning) {
		return sleeps(t, i, by, st, now)
	}
	i.Asleep = false
	switch st.Phase {
	case wire.PhaseRunning:
		switch i.State {
		case wire.WorkerScheduled:
			i = t.Advance(i, wire.Running, now, by, "started")
		case wire.Failed:
			i = t.Advance(i, wire.Running, now, by, "its worker is back, and it had not been replaced")
			i.Shadow = nil
		}
		i.Cause, i.Reason = "", ""
		if !st.Ready {
			// Workers of an older version say "not ready: " before what they found.
			i.Cause, i.Reason = st.Cause, strings.TrimPrefix(st.Why, "not ready: ")
		}
	case wire.PhasePending:
		i.Cause, i.Reason = st.Cause, st.Why
	case wire.PhaseRefused:
		// A running one too: the worker came back with less room than it had.
		if i.State == wire.WorkerScheduled || i.State == wire.Running {
			i = t.AdvanceFor(i, wire.Failed, now, by, wire.CauseRefused, "refused by its worker: "+st.Why)
			instances.Avoid(&i, i.Program, w.Info.Name)
		}
	case wire.PhaseExited:
		i = exited(t, i, by, w.Info.Name, st, now)
	case wire.PhaseStopped:
		if i.State == wire.Running || i.State == wire.WorkerScheduled {
			i.Draining = i.State == wire.Running
			i = t.Advance(i, wire.Terminated, now, by, stopped)
		}
	}
	if i.State == wire.Running {
		if st.Ready && (!i.Ready || st.Restarts > i.Restarts) &&
			rollouts.Table.Get(t.Rows, i.App+"."+i.Service).Open() {
			i.ReadyAt = now.Round(0)
		}
		i.Ready, i.Draining = st.Ready, st.Draining
	}
	instances.Ran(&i, st)
	for _, news := range wire.SecretNews(i.ID, i.Secrets, st.Secrets) {
		t.Event(event.InstanceSecret, i.ID, "%s", news)
	}
	i.Secrets = st.Secrets
	i.Restarts = st.Restarts
	if st.LastExit != nil {
		e := *st.LastExit
		i.LastExit = &e
	}
	return i
}

// sleeps is what becomes of an instance that is placed, and starts with the first
// request. While it wakes it is not more than that yet.
func sleeps(t *state.Tx, i wire.Instance, by string, st wire.InstanceStatus, now time.Time) wire.Instance {
	switch i.State {
	case wire.Running:
		i = t.Advance(i, wire.WorkerScheduled, now, by, "asleep: the next request starts it")
	case wire.Failed:
		i = t.Advance(i, wire.WorkerScheduled, now, by, "its worker is back, and it had not been replaced")
		i.Shadow = nil
	}
	if i.State != wire.WorkerScheduled {
		return i
	}
	i.Asleep, i.Cause, i.Reason = true, st.Cause, st.Why
	instances.Ran(&i, st)
	i.Restarts = st.Restarts
	if st.LastExit != nil {
		e := *st.LastExit
		i.LastExit = &e
	}
	return i
}

// exited is what becomes of an instance that ended by itself and that its
// worker does not start again.
func exited(t *state.Tx, i wire.Instance, by, worker string, st wire.InstanceStatus, now time.Time) wire.Instance {
	if i = jobs.AfterAll(t, i, by, st, now); i.State != wire.Running && i.State != wire.WorkerScheduled {
		return i
	}
	if st.LastExit != nil && life.Clean(*st.LastExit) {
		if i.State == wire.WorkerScheduled { // it was over before anyone saw it run
			i = t.Advance(i, wire.Running, now, by, "started")
		}
		i.Draining = true
		return t.AdvanceFor(i, wire.Terminated, now, by, wire.CauseCompleted, "completed")
	}
	i = t.AdvanceFor(i, wire.Failed, now, by, st.Cause, st.Why)
	if state.JobOf(t.Model, &i) == nil { // which is tried again where there is room, here as well
		instances.Avoid(&i, i.Program, worker)
	}
	return i
}

// settle decides what becomes of a lost placement whose worker is back: the
// original stays unless the service says otherwise (on_return).
func settle(t *state.Tx, i wire.Instance, now time.Time) wire.Instance {
	sh := i.Shadow
	if sh == nil || sh.Worker == i.Worker {
		return i
	}
	old := t.Model.Workers[sh.Worker]
	if old == nil {
		i.Shadow = nil
		return i
	}
	if old.Suspect || !old.EverHeard || old.Inbox.Ack().Inc == "" {
		return i // still away
	}
	if state.JobOf(t.Model, &i) != nil && i.Completed() {
		i.Shadow = nil // what it does there is not needed any more
		return i
	}
	st, ok := old.Status[i.ID]
	runs := ok && st.Incarnation == sh.Incarnation && st.Phase == wire.PhaseRunning
	keep, outdated := "original", st.Revision != i.Revision
	if s := rollouts.ShareFor(t, &i); s != nil {
		keep = s.Spec.OnReturn
		// What it runs is in its order. Revisions only say that something changed, and
		// what the root says after a local change has a lower one.
		if o := t.Model.Orders[sh.Worker+"."+i.ID]; o != nil {
			outdated = !o.Spec.SameProgram(s.Spec)
		}
		outdated = outdated || placement.Unfit(t, &i, sh.Worker, s) != ""
	}
	replaced := i.Worker != ""
	if old.Draining() {
		keep = "replacement"
	}
	done := ok && jobs.DoneThere(t, &i, st)
	if done {
		keep, outdated, runs = "original", false, true
	}
	if runs && (keep == "original" || !replaced) && !outdated {
		switch {
		case !replaced: // nobody could take it meanwhile
			t.Event(event.InstanceOriginal, i.ID, "it is back on %s, and it had not been replaced", sh.Worker)
			if i.State == wire.Requested {
				i = t.Advance(i, wire.ClusterScheduled, now, t.Model.Tier(), "its worker is back")
			}
			i = t.Advance(i, wire.WorkerScheduled, now, t.Model.Tier(), "it still runs there")
		case i.State == wire.Running || i.State == wire.WorkerScheduled:
			i = t.Advance(i, wire.Failed, now, t.Model.Tier(), "its original is back")
			fallthrough
		default:
			// The replacement ends: its order is swept away as the instance is now
			// placed where it was.
			t.Event(event.InstanceOriginal, i.ID, "original on %s is back and stays, the replacement on %s ends",
				sh.Worker, i.Worker)
		}
		if done && i.State == wire.Failed {
			i = t.Advance(i, wire.Running, now, t.Model.Tier(), "its original is back")
		}
		state.Become(&i, sh.Incarnation)
		i.Worker, i.Restarted, i.Restarts, i.Shadow = sh.Worker, sh.Restarted, sh.Restarts, nil
		if o := t.Model.Orders[sh.Worker+"."+i.ID]; o != nil &&
			o.Spec != nil { // it may have been meant to be another when it was placed again
			i.Revision, i.Program = o.Revision, o.Spec.ProgramID()
		}
		return heard(t, i, old, st, now)
	}
	if runs && replaced {
		t.Event(event.InstanceOriginal, i.ID, "original on %s is back and ends, the replacement on %s stays",
			sh.Worker, i.Worker)
	}
	i.Shadow = nil
	return i
}

// End brings an instance that nobody wants any more to its end.
func End(t *state.Tx, id wire.InstanceID, now time.Time) {
	i := *t.Inst(id)
	i.Shadow = nil
	state.Drop(&i)
	switch i.State {
	case wire.Running:
		w := t.Model.Workers[i.Worker]
		if w == nil || w.Suspect {
			// Nobody is there to stop it. Its order goes, so that it stops on return.
			i.Draining = true
			i = t.Advance(i, wire.Terminated, now, t.Model.Tier(),
				"no longer wanted; its worker is away and will stop it on return")
		} else {
			i.Draining = true
			t.Put(i)
			return
		}
	case wire.Terminated:
	default:
		i = t.Advance(i, wire.Terminated, now, t.Model.Tier(), "no longer wanted")
	}
	t.Put(i)
	if i.State == wire.Terminated && i.Leaving == nil { // else that is still to be stopped
		t.Event(event.InstanceEnded, id, "Terminated: %s", i.History[len(i.History)-1].Why)
		t.Remove(id)
	}
}

// SweepOrders brings the orders in line with the instances: each has one at its
// worker, a lost placement keeps its order until it is settled, everything else
// is taken back. An update that leaves the program of an instance as it is
// leaves its order too, revision included: for a worker another revision is
// another run.
func SweepOrders(t *state.Tx, now time.Time) {
	want := map[string]bool{}
	for _, i := range t.Instances() {
		if i.Volumes != nil {
			volumemove.Order(t, i, want)
			continue
		}
		moving.SweepMove(t, i, want, now)
		if i.Shadow != nil {
			want[i.Shadow.Worker+"."+i.ID] = true
		}
		if i.Worker == "" || i.State == wire.Terminated || i.State == wire.Requested ||
			i.State == wire.ClusterScheduled || i.State == wire.Failed && state.JobOf(t.Model, i) != nil {
			jobs.KeepOrder(t, i, want, now)
			continue
		}
		key := i.Worker + "." + i.ID
		want[key] = true
		o := t.Ordered(key)
		s := rollouts.ShareFor(t, i)
		switch {
		case o == nil && s != nil && (i.State == wire.Running || i.State == wire.WorkerScheduled):
			orders.Give(t, i, s)
		case o == nil:
		case i.Draining && (!instances.Wanted(t, i) || state.Halted(i)):
			stop := *o
			stop.Stop = true
			t.Order(i.Worker, i.ID, &stop)
		case s != nil && o.Stop && o.Volumes != nil: // its volumes were to be moved, and are not
			orders.Give(t, i, s)
		case s == nil || o.Stop:
		case o.Incarnation != i.Incarnation, wire.OrderNamespace(o) != cmp.Or(s.Namespace, api.DefaultNamespace):
			// In another namespace it is another application of the same name: its
			// worker ends the one and starts the other.
			orders.Give(t, i, s)
		case o.Revision != i.Revision && i.Revision == s.Revision:
			// The same program: the engine restarts nothing, and looks up anew how to
			// probe, restart and stop it.
			orders.Give(t, i, s)
		}
	}
	for key, o := range t.Model.Orders {
		if !want[key] {
			t.Order(key[:len(key)-len(o.ID)-1], o.ID, nil)
		}
	}
}
