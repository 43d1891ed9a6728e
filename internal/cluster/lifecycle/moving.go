package lifecycle

import (
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/wire"
)

// observeMove takes over what is heard of the other incarnation of an instance: of
// the one that is to take over, and of the one that was taken over from.
func observeMove(t *state.Tx, i wire.Instance, now time.Time) wire.Instance {
	if l := i.Leaving; l != nil && left(t, &i, l) {
		i.Leaving = nil
	}
	if !state.UnderWay(&i) {
		return i
	}
	m := i.Moving
	w := t.Model.Workers[m.Worker]
	if w == nil {
		instances.Failed(&i, "worker "+m.Worker+" was removed", false, now)
		return promote(t, i, now)
	}
	st, known := w.Status[i.ID]
	known = known && st.Incarnation == m.Incarnation
	switch {
	case w.Suspect:
		instances.Failed(&i, "worker "+m.Worker+" does not report", false, now)
	case known && st.Phase == wire.PhaseRefused:
		instances.Failed(&i, "refused by worker "+m.Worker+": "+st.Why, true, now)
	case known && st.Phase == wire.PhaseExited && (st.LastExit == nil || !life.Clean(*st.LastExit)):
		instances.Failed(&i, "on worker "+m.Worker+": "+st.Why, true, now)
	case known && (st.Phase == wire.PhaseExited || st.Phase == wire.PhaseRunning && st.Ready):
		return takeOver(t, i, w, st, now)
	}
	return promote(t, i, now)
}

// left says whether nothing of a former placement is left, or nobody is there who
// could end it: without an order it ends when the worker is back.
func left(t *state.Tx, i *wire.Instance, l *wire.Placement) bool {
	w := t.Model.Workers[l.Worker]
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
func takeOver(t *state.Tx, i wire.Instance, w *state.Worker, st wire.InstanceStatus, now time.Time) wire.Instance {
	if i.State == wire.Terminated || i.Draining {
		return i
	}
	was, old := t.Model.Workers[i.Worker],
		&wire.Placement{Worker: i.Worker, Incarnation: i.Incarnation, Started: now.Round(0), Restarted: i.Restarted}
	switch i.State {
	case wire.Running, wire.Failed:
		cause, why := wire.CauseDrained, "moved to another worker, as its own is drained"
		switch {
		case strings.HasPrefix(i.Moving.For, proximity.RoomFor):
			cause, why = wire.CauseMadeRoom, "moved to another worker: "+i.Moving.For
		case i.Moving.For != "":
			cause, why = wire.CauseMoved, "moved to another worker: "+i.Moving.For
		}
		i = t.AdvanceFor(i, wire.WorkerScheduled, now, t.Model.Tier(), cause, why)
	}
	if was != nil && !was.Suspect {
		i.Leaving = old
	}
	return heard(t, moved(i), w, st, now)
}

// moved is i after its move: the incarnation that was started elsewhere.
func moved(i wire.Instance) wire.Instance {
	m := i.Moving
	state.Become(&i, m.Incarnation)
	i.Worker, i.Revision, i.Restarted, i.Program, i.Moving = m.Worker, m.Revision, m.Restarted, m.Program, nil
	i.Restarts, i.LastExit, i.Unreachable = 0, nil, false
	return i
}

// promote makes a move that is under way the instance where that has failed: it
// would have to be placed again anyway.
func promote(t *state.Tx, i wire.Instance, now time.Time) wire.Instance {
	if i.State != wire.Failed || !state.UnderWay(&i) {
		return i
	}
	i = moved(t.Advance(i, wire.WorkerScheduled, now, t.Model.Tier(), "its replacement is on its way already"))
	if w := t.Model.Workers[i.Worker]; w != nil {
		if st, ok := w.Status[i.ID]; ok && st.Incarnation == i.Incarnation {
			return heard(t, i, w, st, now)
		}
	}
	return i
}
