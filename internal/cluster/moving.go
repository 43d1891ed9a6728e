package cluster

import (
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// Moving an instance off a worker that is being drained: the next incarnation is
// started elsewhere beside the one that runs (Instance.Moving), takes over when it
// is ready, and the one before ends when the routers know (Instance.Leaving).

const (
	// movesAtOnce of one service, so that its room is not doubled.
	movesAtOnce = 1
	// leaveAfter is how long one that was taken over from goes on at least, for
	// routers of other clusters to hear of it; leaveBy how long it waits at most
	// for workers of this one that do not answer.
	leaveAfter = time.Second
	leaveBy    = 10 * time.Second
)

// nextIncarnation is a number that no run of i has ever had.
func nextIncarnation(i *wire.Instance) int {
	n := max(i.Incarnation, i.Given)
	if i.Moving != nil {
		n = max(n, i.Moving.Incarnation)
	}
	if i.Shadow != nil {
		n = max(n, i.Shadow.Incarnation)
	}
	return n + 1
}

// become makes i of the incarnation n, and remembers what was given out.
func become(i *wire.Instance, n int) {
	last := nextIncarnation(i) - 1
	i.Incarnation, i.Given = n, 0
	if last > n {
		i.Given = last
	}
}

// underWay says whether another incarnation of i is starting elsewhere.
func underWay(i *wire.Instance) bool { return i.Moving != nil && i.Moving.Failed == "" }

// drop ends a move that came to nothing or that nobody wants any more; its order is
// swept away.
func drop(i *wire.Instance) {
	if i.Moving != nil {
		last := nextIncarnation(i) - 1
		i.Moving = nil
		if last > i.Incarnation {
			i.Given = last
		}
	}
}

// failed notes why a move came to nothing. The worker is avoided, for a while,
// where it was its doing.
func failed(i *wire.Instance, why string, blame bool, now time.Time) {
	m := *i.Moving
	if blame {
		avoid(i, m.Program, m.Worker)
	}
	m.Failed, m.Since = why, now.Round(0)
	i.Moving = &m
}

// observeMove takes over what is heard of the other incarnation of an instance: of
// the one that is to take over, and of the one that was taken over from.
func (t *tx) observeMove(i wire.Instance, now time.Time) wire.Instance {
	if l := i.Leaving; l != nil && t.left(&i, l) {
		i.Leaving = nil
	}
	if !underWay(&i) {
		return i
	}
	m := i.Moving
	w := t.m.Workers[m.Worker]
	if w == nil {
		failed(&i, "worker "+m.Worker+" was removed", false, now)
		return t.promote(i, now)
	}
	st, known := w.Status[i.ID]
	known = known && st.Incarnation == m.Incarnation
	switch {
	case w.Suspect:
		failed(&i, "worker "+m.Worker+" is not heard of", false, now)
	case known && st.Phase == wire.PhaseRefused:
		failed(&i, "refused by worker "+m.Worker+": "+st.Why, true, now)
	case known && st.Phase == wire.PhaseExited && (st.LastExit == nil || !life.Clean(*st.LastExit)):
		failed(&i, "on worker "+m.Worker+": "+st.Why, true, now)
	case known && (st.Phase == wire.PhaseExited || st.Phase == wire.PhaseRunning && st.Ready):
		return t.takeOver(i, w, st, now)
	}
	return t.promote(i, now)
}

// left says whether nothing of a former placement is left, or nobody is there who
// could end it: without an order it ends when the worker is back.
func (t *tx) left(i *wire.Instance, l *wire.Placement) bool {
	w := t.m.Workers[l.Worker]
	if w == nil || w.Suspect || l.Worker == i.Worker {
		return true
	}
	if !w.EverHeard || w.Inbox.Ack().Inc == "" {
		return false
	}
	st, known := w.Status[i.ID]
	return !known || st.Incarnation != l.Incarnation || st.Phase != wire.PhaseRunning && st.Phase != wire.PhasePending
}

// takeOver makes the incarnation that has become ready elsewhere the instance. What
// was it before goes on until the routers know.
func (t *tx) takeOver(i wire.Instance, w *state.Worker, st wire.InstanceStatus, now time.Time) wire.Instance {
	if i.State == wire.Terminated || i.Draining {
		return i
	}
	was, old := t.m.Workers[i.Worker], &wire.Placement{Worker: i.Worker, Incarnation: i.Incarnation, Started: now.Round(0), Restarted: i.Restarted}
	switch i.State {
	case wire.Running, wire.Failed:
		cause, why := wire.CauseDrained, "moved to another worker, as its own is drained"
		switch {
		case strings.HasPrefix(i.Moving.For, roomFor):
			cause, why = wire.CauseMadeRoom, "moved to another worker: "+i.Moving.For
		case i.Moving.For != "":
			cause, why = wire.CauseMoved, "moved to another worker: "+i.Moving.For
		}
		i = t.AdvanceFor(i, wire.WorkerScheduled, now, t.m.Tier(), cause, why)
	}
	if was != nil && !was.Suspect {
		i.Leaving = old
	}
	return t.heard(moved(i), w, st, now)
}

// moved is i after its move: the incarnation that was started elsewhere.
func moved(i wire.Instance) wire.Instance {
	m := i.Moving
	become(&i, m.Incarnation)
	i.Worker, i.Revision, i.Restarted, i.Program, i.Moving = m.Worker, m.Revision, m.Restarted, m.Program, nil
	i.Restarts, i.LastExit, i.Unreachable = 0, nil, false
	return i
}

// promote makes a move that is under way the instance where that has failed: it
// would have to be placed again anyway.
func (t *tx) promote(i wire.Instance, now time.Time) wire.Instance {
	if i.State != wire.Failed || !underWay(&i) {
		return i
	}
	i = moved(t.Advance(i, wire.WorkerScheduled, now, t.m.Tier(), "its replacement is on its way already"))
	if w := t.m.Workers[i.Worker]; w != nil {
		if st, ok := w.Status[i.ID]; ok && st.Incarnation == i.Incarnation {
			return t.heard(i, w, st, now)
		}
	}
	return i
}

// moves begins what is to be moved, and ends what is not any more. It notes in the
// tx which instances have to stay and why, and which wait for their turn.
func (t *tx) moves(now time.Time) {
	t.agreements(now)
	t.lost()
	t.follow(now)
	t.stays, t.waits, t.tried = map[wire.InstanceID]string{}, map[wire.InstanceID]bool{}, map[wire.InstanceID]bool{}
	t.askedAway(now)
	for _, key := range records.SortedKeys(t.m.Shares) {
		s := t.m.Shares[key]
		busy := 0
		var list []*wire.Instance
		for _, o := range ordinals(s) {
			i := t.Inst(instanceID(s.App, s.Service, o))
			if i == nil {
				continue
			}
			i = t.aim(*i, t.shareFor(i))
			if underWay(i) || i.Leaving != nil {
				busy++
			} else if t.movable(i) {
				list = append(list, i)
			}
		}
		for _, i := range list {
			switch {
			case busy >= movesAtOnce || t.m.Alone:
				t.waits[i.ID] = true
			case t.beginMove(*i, t.shareFor(i), now):
				busy++
			}
		}
	}
}

// movable: the instance runs, or is about to, where nothing is to run, or where its
// agreement is violated.
func (t *tx) movable(i *wire.Instance) bool {
	if t.m.jobOf(i) != nil {
		return false // it would run twice; it ends by itself
	}
	away := t.m.Workers[i.Worker].Draining() || t.broken[i.ID] != "" || underWay(i) && i.Moving.For != ""
	return (i.State == wire.Running || i.State == wire.WorkerScheduled) && !i.Draining && away
}

// aim brings a move in line with what is wanted now, and returns the instance as it
// is then: one that is not to be moved any more stays, and what starts elsewhere is
// of the program that the share asks for now.
func (t *tx) aim(i wire.Instance, s *wire.Share) *wire.Instance {
	if i.Moving == nil {
		return t.Inst(i.ID)
	}
	m := *i.Moving
	if m.Room && (m.Failed != "" || overdue(&m, t.Now)) {
		t.tried[i.ID] = true // whoever waits for its room may end it now
		if m.Failed == "" {
			t.Event("instance/"+i.ID, "not ready on worker %s in %s, to which it was to move", m.Worker, roomBy)
		}
		drop(&i)
		t.Put(i)
		t.recount()
		return t.Inst(i.ID)
	}
	switch {
	case !t.movable(&i):
		drop(&i)
	case m.Failed != "":
		return t.Inst(i.ID)
	case t.m.Workers[m.Worker].Draining(), t.unfit(&i, m.Worker, s) != "":
		drop(&i)
	case m.Program != s.Spec.ProgramID() || m.Restarted < restartOf(s, i.Ordinal).N:
		m.Incarnation = nextIncarnation(&i)
		m.Revision, m.Restarted, m.Program = s.Revision, restartOf(s, i.Ordinal).N, s.Spec.ProgramID()
		i.Moving = &m
		t.Put(i)
		t.orderMove(&i, s)
		return t.Inst(i.ID)
	case m.Revision != s.Revision: // the same program with other terms
		m.Revision = s.Revision
		i.Moving = &m
		t.Put(i)
		t.orderMove(&i, s)
		return t.Inst(i.ID)
	default:
		return t.Inst(i.ID)
	}
	t.Put(i)
	t.recount()
	return t.Inst(i.ID)
}

// beginMove starts an instance elsewhere, beside the one that runs. False where
// there is no place for it: then it stays, with the reason.
func (t *tx) beginMove(i wire.Instance, s *wire.Share, now time.Time) bool {
	d := t.whereTo(&i, s)
	if d.Chosen == "" {
		t.stays[i.ID] = d.Reason
		since := i.Since
		if i.Moving != nil {
			since = i.Moving.Since
		}
		if len(i.Avoid) > 0 && max(now.Sub(since), since.Sub(now)) >= forgiveAfter {
			i.Avoid = nil // as in unplaced
			t.Put(i)
		}
		return false
	}
	t.startMove(i, s, d, t.broken[i.ID], false, now)
	return true
}

// startMove starts an instance on the worker that d has chosen, beside the one that runs;
// room says that it is to make room.
func (t *tx) startMove(i wire.Instance, s *wire.Share, d place.Decision, why string, room bool, now time.Time) {
	n := nextIncarnation(&i)
	i.Moving = &wire.Move{
		Worker: d.Chosen, Incarnation: n, Since: now.Round(0),
		Revision: s.Revision, Restarted: restartOf(s, i.Ordinal).N, Program: s.Spec.ProgramID(),
		For: why, Room: room,
	}
	t.Put(i)
	t.orderMove(&i, s)
	t.Whys[i.ID] = &place.Record{V: wire.Version, At: now, Decision: d}
	t.reserve(d.Chosen, &i, s)
	if i.Moving.For != "" {
		t.Event("instance/"+i.ID, "moving from %s to %s: %s", i.Worker, d.Chosen, i.Moving.For)
		return
	}
	t.Event("instance/"+i.ID, "moving from %s to %s", i.Worker, d.Chosen)
}

// whereTo asks for a worker to move an instance to; the reason says why there is
// none.
func (t *tx) whereTo(i *wire.Instance, s *wire.Share) place.Decision {
	if i.Pinned != "" {
		var names []string
		for _, v := range s.Spec.Volumes {
			if v.Name != "" {
				names = append(names, v.Name)
			}
		}
		return place.Decision{Reason: "its volume " + strings.Join(names, ", ") + " is on that worker and nowhere else (verge volume move takes it to another)"}
	}
	avoid := slices.Clone(t.avoided(i, s))
	if i.Shadow != nil {
		avoid = appendOnce(avoid, i.Shadow.Worker)
	}
	d := t.schedule(i, s, appendOnce(avoid, i.Worker))
	if i.Moving != nil && d.Chosen == "" {
		d.Reason += "; its replacement failed: " + i.Moving.Failed
	}
	return d
}

// orderMove orders the incarnation that is to take over.
func (t *tx) orderMove(i *wire.Instance, s *wire.Share) {
	next := *i
	next.Worker, next.Incarnation, next.Revision = i.Moving.Worker, i.Moving.Incarnation, i.Moving.Revision
	t.giveOrder(&next, s)
}

// sweepMove keeps the orders of both sides of a move.
func (t *tx) sweepMove(i *wire.Instance, want map[string]bool, now time.Time) {
	if underWay(i) {
		key := i.Moving.Worker + "." + i.ID
		want[key] = true
		s := t.shareFor(i)
		if o := t.Ordered(key); s != nil && (o == nil || o.Incarnation != i.Moving.Incarnation) {
			t.orderMove(i, s)
		}
	}
	if i.Leaving == nil {
		return
	}
	key := i.Leaving.Worker + "." + i.ID
	want[key] = true
	if o := t.Ordered(key); o != nil && !o.Stop && t.mayLeave(i, now) {
		stop := *o
		stop.Stop = true
		t.Order(i.Leaving.Worker, i.ID, &stop)
	}
}

// mayLeave: the routers know that another has taken over, as far as that can be
// known. Routers of other clusters get a moment; whoever asks the old one all the
// same is told that it is draining.
func (t *tx) mayLeave(i *wire.Instance, now time.Time) bool {
	s := t.m.Shares[i.App+"."+i.Service]
	if s == nil || len(s.Spec.Ports) == 0 || i.State != wire.Running {
		return true
	}
	after := now.Sub(i.Leaving.Started)
	if after < 0 || after >= leaveBy { // the clock was set back
		return true
	}
	if after < leaveAfter {
		return false
	}
	for _, w := range t.m.Workers {
		if !w.Suspect && w.EverHeard && !w.Current {
			return false
		}
	}
	return true
}
