package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/wire"
)

// Times of the loop.
const (

	// silence beyond which a worker is suspect, in its own λ.
	silence = 2.5
	// gatheringTime is how long a new process waits to hear from all workers: after that
	// those that were not heard are suspect.
	gatheringTime = time.Duration(silence * float64(state.MaxHeartbeat))
	// opening is how long a new process places nothing while it has not heard from all
	// workers: one of them may prove that this cluster is an older copy of itself.
	opening = 5 * time.Second
	// forgiveAfter is how long a worker on which an instance failed for good is
	// avoided if there is no other.
	forgiveAfter = time.Minute
)

// Why an instance ended: it was asked to, or it was done.
const (
	stopped = "stopped"
)

// step is one pass of the cluster's loop: it compares what should be with what
// is and collects in a tx what has to change. It is a function of the model and
// of now, and doing it twice changes nothing more.
func (m *model) step(now time.Time) *tx {
	t := m.begin()
	t.Now = now
	if !t.recover(now) {
		return t
	}
	t.weigh(now)
	t.scale(now)
	t.forgetProfiles()
	t.net.Lease(now)
	for _, i := range t.Instances() {
		t.observe(i.ID, now)
	}
	t.beginJobs(now)
	for _, key := range records.SortedKeys(m.Shares) {
		t.fulfil(m.Shares[key], now)
	}
	for _, i := range t.Instances() {
		if !t.wanted(i) && !t.handingOver(i, now) {
			t.end(i.ID, now)
		}
	}
	t.judgeJobs(now)
	t.recount() // what was observed changed it
	t.moves(now)
	t.roll(now)
	t.place(now)
	t.sweepOrders(now)
	t.net.DropNumbers()
	t.route()
	t.m.vault.Give(t.Tx)
	t.reportUp()
	t.reportLocals()
	t.reportRolls()
	t.reportJobs(now)
	t.count()
	t.news()
	return t
}

// news makes events of what instances have become that their histories do not say.
func (t *tx) news() {
	for _, id := range records.SortedKeys(t.Insts) {
		old, i := t.m.Insts[id], t.Insts[id]
		if i == nil || old == nil {
			continue
		}
		t.newsOf(old, i)
	}
}

func (t *tx) newsOf(old, i *wire.Instance) {
	for _, what := range life.News(old, i) {
		t.Event("instance/"+i.ID, "%s", what)
	}
}

// ordinals that a share delegates and that are to be fulfilled, in order.
func ordinals(s *wire.Share) []int {
	var out []int
	for _, sp := range s.Ordinals {
		for o := sp.From; o < sp.To && len(out) < s.Min; o++ {
			out = append(out, o)
		}
	}
	return out
}

func instanceID(app, svc string, ordinal int) wire.InstanceID {
	return app + "." + svc + "." + strconv.Itoa(ordinal)
}

// wanted says whether a share asks for instance i.
func (t *tx) wanted(i *wire.Instance) bool {
	s := t.m.Shares[i.App+"."+i.Service]
	if s == nil {
		return false
	}
	before := 0 // ordinals of the share that come first
	for _, sp := range s.Ordinals {
		if i.Ordinal >= sp.From && i.Ordinal < sp.To {
			return before+i.Ordinal-sp.From < s.Min
		}
		before += max(0, sp.To-sp.From)
	}
	return false
}

// fulfil makes the instances that a share asks for.
func (t *tx) fulfil(s *wire.Share, now time.Time) {
	if s.Spec.Job != nil {
		t.fulfilJob(s, now)
		return
	}
	for _, o := range ordinals(s) {
		id := instanceID(s.App, s.Service, o)
		old := t.Inst(id)
		again := runAgain(old, s)
		if old != nil && again == "" && (old.State != wire.Terminated || old.Completed()) {
			continue
		}
		why := "taken over from the root"
		if o >= wire.SurgeOrdinals {
			why = fmt.Sprintf("stands in for others while they are updated to revision %d", s.Revision)
		} else if o >= wire.LocalOrdinals {
			why = "wanted by a change that was made here"
		}
		i := wire.Instance{
			V: wire.Version, ID: id, App: s.App, Service: s.Service, Ordinal: o,
			Incarnation: 0, Revision: s.Revision, Cluster: t.m.Name,
			State: wire.ClusterScheduled, Since: now,
			History: []wire.Transition{{To: wire.ClusterScheduled, At: now, Tier: t.m.Tier(), Why: why}},
		}
		if old != nil { // it was on its way out when it was wanted again, or is to run again
			i.Incarnation, i.Given, i.Restarted, i.Leaving = old.Incarnation, old.Given, old.Restarted, old.Leaving
			i.Starts, i.Ran, i.Places, i.AllRestarts = old.Starts, old.Ran, old.Places, old.Again()
		}
		if again != "" {
			i.History = append(i.History, wire.Transition{To: wire.ClusterScheduled, At: now, Tier: t.m.Tier(), Why: again})
		}
		t.Put(i)
	}
}

// observe takes over what the worker of an instance says about it, and what its
// silence says.
func (t *tx) observe(id wire.InstanceID, now time.Time) {
	was := t.Inst(id)
	i := t.unpin(*was)
	if i.Worker == "" {
		// Given back for want of a place; the lost one may return.
		t.Put(t.observeMove(t.settle(i, now), now))
		return
	}
	if i.Volumes != nil {
		if i = t.moveVolumes(i, now); i.Volumes != nil {
			t.Put(i)
			return
		}
	}
	w := t.m.Workers[i.Worker]
	if w == nil {
		if i.State == wire.Running || i.State == wire.WorkerScheduled {
			i = t.Advance(i, wire.Failed, now, t.m.Tier(), "its worker was removed")
		}
		t.Put(t.attempted(was, t.observeMove(i, now), now))
		return
	}
	st, known := w.Status[id]
	current := known && st.Incarnation == i.Incarnation
	switch {
	case w.Suspect:
		i = t.silent(i, w, now)
	case current:
		i = t.heard(i, w, st, now)
	case i.State == wire.Running && w.EverHeard && w.Inbox.Ack().Inc != "" && !current:
		// The worker reported all it has, and this is not among it: its disk is gone
		// or somebody emptied its data directory.
		i = t.Advance(i, wire.Failed, now, t.m.Tier(), "its worker does not know it any more")
	}
	t.Put(t.attempted(was, t.observeMove(t.settle(i, now), now), now))
}

// pinnedAway is said of an instance whose worker is away and has its volume.
const pinnedAway = "its worker, which has its volume, is away and is waited for; if it is gone for good, verge remove worker/NAME lets the instance begin elsewhere, with an empty volume"

// silent is what becomes of an instance whose worker is suspect.
func (t *tx) silent(i wire.Instance, w *state.Worker, now time.Time) wire.Instance {
	if i.State != wire.Running && i.State != wire.WorkerScheduled {
		return i
	}
	i.Unreachable = i.State == wire.Running
	if i.Pinned != "" { // what it has stored is nowhere else
		i.Reason = pinnedAway
		return i
	}
	if t.m.Alone || now.Sub(w.Since) < t.m.ReplaceAfter(&i, w) {
		return i
	}
	ran := i.State == wire.Running
	why := fmt.Sprintf("its worker has not been heard of for %s", now.Sub(w.Heard).Round(100*time.Millisecond))
	if w.Impaired() != "" {
		why = "its worker cannot vouch for it: " + w.Impaired()
	}
	i = t.Advance(i, wire.Failed, now, t.m.Tier(), why)
	if ran {
		i.Shadow = &wire.Placement{Worker: i.Worker, Incarnation: i.Incarnation, Started: i.Since, Restarted: i.Restarted, Restarts: i.Restarts}
	}
	return i
}

// heard takes over the status of an instance's current incarnation.
func (t *tx) heard(i wire.Instance, w *state.Worker, st wire.InstanceStatus, now time.Time) wire.Instance {
	by := "worker/" + w.Info.Name
	i.Unreachable = false
	if i.Completed() && t.m.jobOf(&i) != nil {
		return i // and that is all there is to know of it
	}
	if st.StartUp > 0 {
		i.StartUp = st.StartUp
	}
	if st.Asleep && (st.Phase == wire.PhasePending || st.Phase == wire.PhaseRunning) {
		return t.sleeps(i, by, st, now)
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
		i.Reason = ""
		if !st.Ready {
			// Workers of an older version say "not ready: " before what they found.
			i.Reason = strings.TrimPrefix(st.Why, "not ready: ")
		}
	case wire.PhasePending:
		i.Reason = st.Why
	case wire.PhaseRefused:
		// A running one too: the worker came back with less room than it had.
		if i.State == wire.WorkerScheduled || i.State == wire.Running {
			i = t.AdvanceFor(i, wire.Failed, now, by, wire.CauseRefused, "refused by its worker: "+st.Why)
			avoid(&i, i.Program, w.Info.Name)
		}
	case wire.PhaseExited:
		i = t.exited(i, by, w.Info.Name, st, now)
	case wire.PhaseStopped:
		if i.State == wire.Running || i.State == wire.WorkerScheduled {
			i.Draining = i.State == wire.Running
			i = t.Advance(i, wire.Terminated, now, by, stopped)
		}
	}
	if i.State == wire.Running {
		if st.Ready && (!i.Ready || st.Restarts > i.Restarts) && t.rollOf(i.App+"."+i.Service).open() {
			i.ReadyAt = now.Round(0)
		}
		i.Ready, i.Draining = st.Ready, st.Draining
	}
	ran(&i, st)
	for _, news := range wire.SecretNews(i.ID, i.Secrets, st.Secrets) {
		t.Event("instance/"+i.ID, "%s", news)
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
func (t *tx) sleeps(i wire.Instance, by string, st wire.InstanceStatus, now time.Time) wire.Instance {
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
	i.Asleep, i.Reason = true, st.Why
	ran(&i, st)
	i.Restarts = st.Restarts
	if st.LastExit != nil {
		e := *st.LastExit
		i.LastExit = &e
	}
	return i
}

// exited is what becomes of an instance that ended by itself and that its
// worker does not start again.
func (t *tx) exited(i wire.Instance, by, worker string, st wire.InstanceStatus, now time.Time) wire.Instance {
	if i = t.afterAll(i, by, st, now); i.State != wire.Running && i.State != wire.WorkerScheduled {
		return i
	}
	if st.LastExit != nil && life.Clean(*st.LastExit) {
		if i.State == wire.WorkerScheduled { // it was over before anyone saw it run
			i = t.Advance(i, wire.Running, now, by, "started")
		}
		i.Draining = true
		return t.AdvanceFor(i, wire.Terminated, now, by, wire.CauseCompleted, "completed")
	}
	i = t.Advance(i, wire.Failed, now, by, st.Why)
	if t.m.jobOf(&i) == nil { // which is tried again where there is room, here as well
		avoid(&i, i.Program, worker)
	}
	return i
}

// settle decides what becomes of a lost placement whose worker is back: the
// original stays unless the service says otherwise (on_return).
func (t *tx) settle(i wire.Instance, now time.Time) wire.Instance {
	sh := i.Shadow
	if sh == nil || sh.Worker == i.Worker {
		return i
	}
	old := t.m.Workers[sh.Worker]
	if old == nil {
		i.Shadow = nil
		return i
	}
	if old.Suspect || !old.EverHeard || old.Inbox.Ack().Inc == "" {
		return i // still away
	}
	if t.m.jobOf(&i) != nil && i.Completed() {
		i.Shadow = nil // what it does there is not needed any more
		return i
	}
	st, ok := old.Status[i.ID]
	runs := ok && st.Incarnation == sh.Incarnation && st.Phase == wire.PhaseRunning
	keep, outdated := "original", st.Revision != i.Revision
	if s := t.shareFor(&i); s != nil {
		keep = s.Spec.OnReturn
		// What it runs is in its order. Revisions only say that something changed, and
		// what the root says after a local change has a lower one.
		if o := t.m.Orders[sh.Worker+"."+i.ID]; o != nil {
			outdated = !o.Spec.SameProgram(s.Spec)
		}
		outdated = outdated || t.unfit(&i, sh.Worker, s) != ""
	}
	replaced := i.Worker != ""
	if old.Draining() {
		keep = "replacement"
	}
	done := ok && t.doneThere(&i, st)
	if done {
		keep, outdated, runs = "original", false, true
	}
	if runs && (keep == "original" || !replaced) && !outdated {
		switch {
		case !replaced: // nobody could take it meanwhile
			t.Event("instance/"+i.ID, "it is back on %s, and it had not been replaced", sh.Worker)
			if i.State == wire.Requested {
				i = t.Advance(i, wire.ClusterScheduled, now, t.m.Tier(), "its worker is back")
			}
			i = t.Advance(i, wire.WorkerScheduled, now, t.m.Tier(), "it still runs there")
		case i.State == wire.Running || i.State == wire.WorkerScheduled:
			i = t.Advance(i, wire.Failed, now, t.m.Tier(), "its original is back")
			fallthrough
		default:
			// The replacement ends: its order is swept away as the instance is now
			// placed where it was.
			t.Event("instance/"+i.ID, "original on %s is back and stays, the replacement on %s ends", sh.Worker, i.Worker)
		}
		if done && i.State == wire.Failed {
			i = t.Advance(i, wire.Running, now, t.m.Tier(), "its original is back")
		}
		become(&i, sh.Incarnation)
		i.Worker, i.Restarted, i.Restarts, i.Shadow = sh.Worker, sh.Restarted, sh.Restarts, nil
		if o := t.m.Orders[sh.Worker+"."+i.ID]; o != nil && o.Spec != nil { // it may have been meant to be another when it was placed again
			i.Revision, i.Program = o.Revision, o.Spec.ProgramID()
		}
		return t.heard(i, old, st, now)
	}
	if runs && replaced {
		t.Event("instance/"+i.ID, "original on %s is back and ends, the replacement on %s stays", sh.Worker, i.Worker)
	}
	i.Shadow = nil
	return i
}

// end brings an instance that nobody wants any more to its end.
func (t *tx) end(id wire.InstanceID, now time.Time) {
	i := *t.Inst(id)
	i.Shadow = nil
	drop(&i)
	switch i.State {
	case wire.Running:
		w := t.m.Workers[i.Worker]
		if w == nil || w.Suspect {
			// Nobody is there to stop it. Its order goes, so that it stops on return.
			i.Draining = true
			i = t.Advance(i, wire.Terminated, now, t.m.Tier(), "no longer wanted; its worker is away and will stop it on return")
		} else {
			i.Draining = true
			t.Put(i)
			return
		}
	case wire.Terminated:
	default:
		i = t.Advance(i, wire.Terminated, now, t.m.Tier(), "no longer wanted")
	}
	t.Put(i)
	if i.State == wire.Terminated && i.Leaving == nil { // else that is still to be stopped
		t.Event("instance/"+id, "Terminated: %s", i.History[len(i.History)-1].Why)
		t.Remove(id)
	}
}

// place finds a worker for every instance that has none.
func (t *tx) place(now time.Time) {
	if t.m.unsaid(now) {
		return // it may run on a worker that has not said yet what it has
	}
	for _, rank := range t.ranks() {
		for left := t.waiters(rank); len(left) > 0; {
			left = t.placeInTurn(left, now)
		}
	}
}

// placeInTurn finds workers for those of one rank that wait, those of drf services after
// the others. It returns whom that displaced last, as far as they have the same rank.
func (t *tx) placeInTurn(left []waiter, now time.Time) (displaced []waiter) {
	contend, rank := map[string][]*wire.Instance{}, left[0].Rank
	heed := func(add func(waiter)) {
		for _, id := range t.victims {
			i := t.Inst(id)
			if w := (waiter{turn.Waiter{Claim: t.claimOf(i)}, id}); w.Rank == rank && t.placeable(i) {
				add(w)
			}
		}
		t.victims = nil // those of a lower rank are found when it is their turn
	}
	for len(left) > 0 {
		w := left[0]
		left = left[1:]
		i := t.Inst(w.id)
		s := t.shareFor(i)
		if place.IsDRF(t.m.scheduler(s)) && !w.Promised { // whose turn was when room was made
			contend[i.App+"."+i.Service] = append(contend[i.App+"."+i.Service], i)
			continue
		}
		t.placeOne(*i, s, now)
		heed(func(w waiter) { left = queue(left, w) })
	}
	t.contend(contend, now)
	heed(func(w waiter) { displaced = append(displaced, w) })
	return displaced
}

// restartNever: the program ended with an error and is not to be run again. What
// has ended says nothing about another program, or against a wish to run it again.
func restartNever(s *wire.Share, i *wire.Instance) bool {
	return s.Spec.Restart.Policy == "never" && i.LastExit != nil && i.Shadow == nil &&
		i.Restarted >= restartOf(s, i.Ordinal).N && (i.Program == "" || i.Program == s.Spec.ProgramID())
}

// placeOne finds a worker for an instance; false if there is none.
func (t *tx) placeOne(i wire.Instance, s *wire.Share, now time.Time) bool {
	if why := t.nearWait(s, now); why != "" {
		i.Reason = why
		t.Put(i)
		return false
	}
	avoid := t.avoided(&i, s)
	if i.Shadow != nil {
		avoid = appendOnce(slices.Clone(avoid), i.Shadow.Worker)
	}
	d := t.schedule(&i, s, avoid)
	if t.waiting[i.ID] {
		i.Reason = d.Reason
		t.Put(i)
		return false
	}
	if d.Chosen == "" && !t.m.gathering(now) && !standIn(&i) && t.full(&i, d.Reason, now) {
		return false // fewer of it are enough here
	}
	if d.Chosen == "" && !t.m.gathering(now) && !standIn(&i) && t.preempt(i, s, d, avoid, now) {
		return false // others make room
	}
	if d.Chosen == "" {
		t.unplaced(i, d, now)
		return false
	}
	if i.State == wire.Requested {
		i = t.Advance(i, wire.ClusterScheduled, now, t.m.Tier(), "there is room again")
	}
	i = t.Advance(i, wire.WorkerScheduled, now, t.m.Tier(), "placed on a worker")
	t.assign(i, s, d, now)
	return true
}

// unplaced is what becomes of an instance that no worker can take: while the
// cluster is still hearing from its workers it waits, then it is given back to
// the root with the reason. Until the root takes it away the cluster goes on
// trying, so that it heals without the root as soon as there is room.
func (t *tx) unplaced(i wire.Instance, d place.Decision, now time.Time) {
	reason := d.Reason
	avoids := len(t.avoided(&i, t.shareFor(&i))) > 0
	if why := t.failure(&i); avoids && why != "" {
		reason += place.FailedBecause + why
	}
	if n := len(i.History); n > 0 && i.History[n-1].Because() == wire.CauseDisplaced {
		reason += "; it was " + i.History[n-1].Why // the root may take it away, and with it all that is known here
	}
	reason += t.leftWords(&i)
	pinned := i.Pinned != "" // nobody else could take it: it waits here for its worker
	switch {
	case (i.State == wire.Requested || pinned) && avoids && max(now.Sub(i.Since), i.Since.Sub(now)) >= forgiveAfter:
		// Failing again where it failed is better than not running at all, but not
		// in a hurry.
		i.Avoid = nil
	case t.m.gathering(now), i.State == wire.Requested, pinned:
		i.Reason = reason
	default:
		i = t.Advance(i, wire.Requested, now, t.m.Tier(), reason)
		i.Worker = ""
		t.Whys[i.ID] = &place.Record{V: wire.Version, At: now, Decision: d}
		what := "returned to the root"
		if standIn(&i) {
			what = "has no room beyond those promised"
		} else if i.Ordinal >= wire.LocalOrdinals {
			what = "waits for room"
		}
		t.Event("instance/"+i.ID, "%s: %s", what, reason)
	}
	t.Put(i)
}

// avoid notes that a program of an instance failed for good on a worker. Where another one
// failed before, that is forgotten.
func avoid(i *wire.Instance, program, worker string) {
	if i.FailedProgram != program {
		i.Avoid, i.FailedProgram = nil, program
	}
	i.Avoid = appendOnce(i.Avoid, worker)
}

// otherFailed says whether it was another program than that of s that failed.
func (t *tx) otherFailed(i *wire.Instance, s *wire.Share) bool {
	return s != nil && i.FailedProgram != "" && i.FailedProgram != t.Program(s.Spec)
}

// avoided are the workers on which the program of s has failed as instance i.
func (t *tx) avoided(i *wire.Instance, s *wire.Share) []string {
	if t.otherFailed(i, s) {
		return nil
	}
	return i.Avoid
}

// failure is what a worker said when the instance failed there last, "" if none
// did with the program that it is to run: without it nobody would learn why its workers
// are avoided.
func (t *tx) failure(i *wire.Instance) string { return t.failed(i).Why }

// failed is the step by which a worker gave the instance up last, with the program that it is
// to run; the zero one for none.
func (t *tx) failed(i *wire.Instance) wire.Transition {
	if t.otherFailed(i, t.shareFor(i)) {
		return wire.Transition{}
	}
	for _, h := range slices.Backward(i.History) {
		if h.To == wire.Failed && strings.HasPrefix(h.Tier, "worker/") {
			return h
		}
	}
	return wire.Transition{}
}

// failedFor is why the program that an instance is to run has failed here, "" where it has
// not, or is tried on another worker for the first time.
func (t *tx) failedFor(i *wire.Instance, s *wire.Share) string {
	if s == nil || i.Ready || i.Draining {
		return ""
	}
	nowhere := i.State == wire.Failed || i.State == wire.Requested
	switch avoided := len(t.avoided(i, s)); {
	case avoided >= 2, avoided > 0 && nowhere:
		if h := t.failed(i); h.Because() != wire.CauseRefused {
			return h.Why
		}
	case i.State == wire.Failed && s.Spec.Job == nil && restartNever(s, i):
		return i.Reason
	}
	return ""
}

// gathering: this process started lately and has not yet heard from all the
// workers that are registered, or it hears of nobody.
func (m *model) gathering(now time.Time) bool {
	if m.Alone {
		return true
	}
	if now.Sub(m.Waits) > gatheringTime {
		return false
	}
	for _, w := range m.Workers {
		if !w.EverHeard {
			return true
		}
	}
	return false
}

// unsaid: nothing is placed yet. A new process waits a moment for the workers, since one of
// them may prove that this cluster is an older copy of itself; one that recovers waits
// until they have said what they have.
func (m *model) unsaid(now time.Time) bool {
	recovers := m.Mark() != nil
	switch {
	case recovers && m.Alone:
		return true
	case recovers && now.Sub(m.Waits) > gatheringTime, !recovers && now.Sub(m.Started) >= opening:
		return false
	}
	for _, w := range m.Workers {
		if !w.EverHeard || recovers && w.Inbox.Ack().Inc == "" {
			return true
		}
	}
	return false
}

// giveOrder writes the order of an instance to its worker.
func (t *tx) giveOrder(i *wire.Instance, s *wire.Share) {
	t.Order(i.Worker, i.ID, &wire.Order{
		V: wire.Version, ID: i.ID, App: i.App, Namespace: s.Namespace, Service: i.Service, Ordinal: i.Ordinal,
		Incarnation: i.Incarnation, Revision: i.Revision, Spec: s.Spec,
		AppNumber: t.net.OrderNumber(i, s), Job: t.jobOrder(i, s), Sleep: t.sleep(i, s), Devices: t.giveDevices(i, s),
	})
}

// sweepOrders brings the orders in line with the instances: each has one at its
// worker, a lost placement keeps its order until it is settled, everything else
// is taken back. An update that leaves the program of an instance as it is
// leaves its order too, revision included: for a worker another revision is
// another run.
func (t *tx) sweepOrders(now time.Time) {
	want := map[string]bool{}
	for _, i := range t.Instances() {
		if i.Volumes != nil {
			t.orderVolumes(i, want)
			continue
		}
		t.sweepMove(i, want, now)
		if i.Shadow != nil {
			want[i.Shadow.Worker+"."+i.ID] = true
		}
		if i.Worker == "" || i.State == wire.Terminated || i.State == wire.Requested || i.State == wire.ClusterScheduled || i.State == wire.Failed && t.m.jobOf(i) != nil {
			t.keepOrder(i, want, now)
			continue
		}
		key := i.Worker + "." + i.ID
		want[key] = true
		o := t.Ordered(key)
		s := t.shareFor(i)
		switch {
		case o == nil && s != nil && (i.State == wire.Running || i.State == wire.WorkerScheduled):
			t.giveOrder(i, s)
		case o == nil:
		case i.Draining && (!t.wanted(i) || halted(i)):
			stop := *o
			stop.Stop = true
			t.Order(i.Worker, i.ID, &stop)
		case s != nil && o.Stop && o.Volumes != nil: // its volumes were to be moved, and are not
			t.giveOrder(i, s)
		case s == nil || o.Stop:
		case o.Incarnation != i.Incarnation, wire.OrderNamespace(o) != cmp.Or(s.Namespace, api.DefaultNamespace):
			// In another namespace it is another application of the same name: its
			// worker ends the one and starts the other.
			t.giveOrder(i, s)
		case o.Revision != i.Revision && i.Revision == s.Revision:
			// The same program: the engine restarts nothing, and looks up anew how to
			// probe, restart and stop it.
			t.giveOrder(i, s)
		}
	}
	for key, o := range t.m.Orders {
		if !want[key] {
			t.Order(key[:len(key)-len(o.ID)-1], o.ID, nil)
		}
	}
}

func appendOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(slices.Clone(list), s)
}
