package recovery

import (
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/orders"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster that was restored from a backup, or whose data directory is an older copy
// of itself, has old shares, and does not know what it placed after that was made. The root knows the
// shares, the workers know
// what runs. So it hears the root first, then each worker, and takes over what runs
// there and is wanted before it tells that worker anything.

// Recover hears the root and the workers. It reports whether more can be decided.
func Recover(t *state.Tx, now time.Time) bool {
	m := t.Model
	if past := m.Past().Back(func(name string) bool {
		if name == state.TheRoot {
			return m.RootHeard
		}
		w := m.Workers[name]
		return w == nil || w.Matched
	}); past != nil {
		SettlePast(t, past)
	}
	if m.Mark() == nil {
		return true
	}
	if m.Unasked(state.TheRoot) {
		if m.RootHeard {
			asked(t, state.TheRoot, now)
			t.Event(event.ClusterRecoveryHeard, m.Name, "the root has sent its state")
		}
		return false
	}
	all := true
	for _, name := range records.SortedKeys(m.Workers) {
		w := m.Workers[name]
		if !m.Unasked(name) {
			continue
		}
		if !w.EverHeard || w.Inbox.Ack().Inc == "" {
			all = false
			continue
		}
		for _, id := range records.SortedKeys(w.Status) {
			adopt(t, name, w.Status[id], now)
		}
		asked(t, name, now)
	}
	if all {
		SettlePast(t, Past(t).Ended(m.Mark(), m.Recovery.Stored))
		state.MarkTable.Put(t.Rows, "", nil)
		t.Event(event.ClusterRecoveryEnded, m.Name, "all workers have been heard: the recovery has ended")
	}
	return true
}

// asked notes that somebody has been heard.
func asked(t *state.Tx, name string, now time.Time) {
	state.MarkTable.Put(t.Rows, "", state.MarkTable.Get(t.Rows, "").Heard(name, now))
	SettlePast(t, Past(t).Heard(name, t.Model.Proven[name]))
}

// Past is what is settled as this tx leaves it; nil: nothing ever was.
func Past(t *state.Tx) *backup.Settled { return state.SettledTable.Get(t.Rows, "") }

// SettlePast notes the end of recoveries, as far as past says.
func SettlePast(t *state.Tx, past *backup.Settled) { state.SettledTable.Put(t.Rows, "", past) }

// adopt makes an instance that runs on a worker known where it is wanted and the
// backup has nothing later of it.
func adopt(t *state.Tx, worker string, st wire.InstanceStatus, now time.Time) {
	parts := strings.Split(st.ID, ".")
	if len(parts) != 3 || st.Phase != wire.PhaseRunning {
		return
	}
	ordinal, err := strconv.Atoi(parts[2])
	s := t.Model.Shares[parts[0]+"."+parts[1]]
	if err != nil || s == nil || state.InstanceID(s.App, s.Service, ordinal) != st.ID {
		return
	}
	i := wire.Instance{V: wire.Version, ID: st.ID, App: s.App, Service: s.Service, Ordinal: ordinal}
	if !instances.Wanted(t, &i) {
		return
	}
	if old := t.Inst(st.ID); old != nil && old.Incarnation >= st.Incarnation && confirmed(t, old) {
		return
	}
	why := "it runs on a worker, the cluster did not know of that"
	i.Cluster, i.Worker, i.Incarnation, i.Revision = t.Model.Name, worker, st.Incarnation, st.Revision
	i.State, i.Since, i.Ready, i.Restarts = wire.Running, now.Round(0), st.Ready, st.Restarts
	i.Starts, i.Ran = 1+st.Restarts, st.Incarnation
	i.History = []wire.Transition{{To: wire.ClusterScheduled, At: i.Since, Tier: t.Model.Tier(), Why: "recovered"},
		{To: wire.Running, At: i.Since, Tier: "worker/" + worker, Why: why}}
	t.Event(event.InstanceAdopted, st.ID, "incarnation %d on %s was not known here: taken over", st.Incarnation, worker)
	n := netlease.In(t).AdoptNumber(s, st)
	if st.Revision == s.Revision {
		i.Restarted, i.Program = state.RestartOf(s, ordinal).N, s.Spec.ProgramID()
		t.Put(i)
		orders.Give(t, &i, s)
		if o := t.Orders[worker+"."+i.ID]; o != nil && n != 0 && o.AppNumber != n {
			t.Orders[worker+"."+i.ID].AppNumber = n // what runs has addresses of that
		}
		return
	}
	// What it runs is not known, only that it is not what is wanted now.
	i.State = wire.WorkerScheduled
	orders.Start(t, i, s)
}

// confirmed: what is stored of an instance is what its worker says, or may still
// say. An instance that was ended and made anew after the backup begins again with
// its first incarnation, so that the number alone does not tell which is later.
func confirmed(t *state.Tx, i *wire.Instance) bool {
	w := t.Model.Workers[i.Worker]
	if w == nil {
		return false
	}
	if !w.EverHeard || w.Inbox.Ack().Inc == "" {
		return true
	}
	st, ok := w.Status[i.ID]
	return ok && st.Phase == wire.PhaseRunning && st.Incarnation == i.Incarnation && st.Revision == i.Revision
}

// View says how far the recovery is.
func View(m *state.Model) apiv1.RecoveryView {
	v := apiv1.RecoveryView{Peers: []apiv1.RecoveryPeer{}}
	mark := m.Mark()
	if mark == nil {
		return v
	}
	v.Restored, v.Made, v.Holding, v.Dropped = mark.At, mark.Made, m.Unasked(state.TheRoot), mark.Dropped
	v.Ahead, v.Twin = mark.Ahead, mark.Twin
	v.Peers = append(v.Peers, apiv1.RecoveryPeer{Name: "root", Asked: mark.Asked[state.TheRoot]})
	for _, name := range records.SortedKeys(m.Workers) {
		v.Peers = append(v.Peers, apiv1.RecoveryPeer{Name: name, Asked: mark.Asked[name]})
	}
	return v
}

// Problem is what people must know about a recovery, "" for nothing.
func Problem(v apiv1.RecoveryView) string {
	if v.Restored.IsZero() {
		return ""
	}
	var missing []string
	for _, p := range v.Peers {
		if p.Asked.IsZero() {
			missing = append(missing, p.Name)
		}
	}
	text := v.Why() + ": not heard yet: " + strings.Join(missing, ", ")
	if v.Holding {
		text += "; nothing is decided before the root has been; to go on without it: verge recovery finish root"
	}
	return text
}
