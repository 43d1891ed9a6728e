package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster that was restored from a backup, or whose data directory is an older copy
// of itself, has old shares, and does not know what it placed after that was made. The root knows the shares, the workers know
// what runs. So it hears the root first, then each worker, and takes over what runs
// there and is wanted before it tells that worker anything.

// recover hears the root and the workers. It reports whether more can be decided.
func (t *tx) recover(now time.Time) bool {
	m := t.m
	if past := m.Past().Back(func(name string) bool {
		if name == state.TheRoot {
			return m.Recovery.Heard
		}
		w := m.Workers[name]
		return w == nil || w.Matched
	}); past != nil {
		t.settlePast(past)
	}
	if m.Mark() == nil {
		return true
	}
	if m.Unasked(state.TheRoot) {
		if m.Recovery.Heard {
			t.asked(state.TheRoot, now)
			t.Event("cluster/"+m.Name, "the root has said what is wanted here")
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
			t.adopt(name, w.Status[id], now)
		}
		t.asked(name, now)
	}
	if all {
		t.settlePast(t.past().Ended(m.Mark(), m.Recovery.Stored))
		state.MarkTable.Put(t.Rows, "", nil)
		t.Event("cluster/"+m.Name, "all workers have been heard: the recovery has ended")
	}
	return true
}

// asked notes that somebody has been heard.
func (t *tx) asked(name string, now time.Time) {
	state.MarkTable.Put(t.Rows, "", state.MarkTable.Get(t.Rows, "").Heard(name, now))
	t.settlePast(t.past().Heard(name, t.m.Recovery.Proven[name]))
}

// past is what is settled as this tx leaves it; nil: nothing ever was.
func (t *tx) past() *backup.Settled { return state.SettledTable.Get(t.Rows, "") }

func (t *tx) settlePast(past *backup.Settled) { state.SettledTable.Put(t.Rows, "", past) }

// proofOf is the purpose of the codes that prove revisions.
const proofOf = "revision of a cluster"

// prove makes the proofs of revisions that a worker is given, so that it can show later
// that it had them from this cluster.
func (c *core) prove(worker string) func(wire.Rev) []byte { return c.prover.Revisions(worker) }

// heedAhead begins a recovery where a worker proves that it has seen a state of this
// cluster that the store has never been in, see the root's. The mutex is held.
func (c *core) heedAhead(ctx context.Context, w *state.Worker, r wire.Report, now time.Time) error {
	if len(r.Proof) == 0 {
		return nil
	}
	from, ahead := c.desiredOf(w.Info.Name).Ahead(r.Have, r.Proof)
	if !ahead {
		return nil
	}
	return c.beginRecovery(ctx, backup.Proof{Peer: w.Info.Name, By: "worker " + w.Info.Name, Has: r.Have, From: from, Twin: w.Matched}, now)
}

// onWas hears from the root what it had of this cluster before. The next pass heeds that:
// who calls must not wait for one.
func (c *core) onWas(was wire.Rev) {
	if _, ahead := c.store.Timeline().Ahead(was, c.store.Rev()); ahead {
		c.was.Store(&was)
		loop.Poke(c.wake)
	}
}

// heedRoot begins a recovery where the root had a later state of this cluster than the store
// has. The mutex is held.
func (c *core) heedRoot(ctx context.Context, now time.Time) error {
	was := c.was.Swap(nil)
	// Once for each process: the root is told all of the observed state anew by it.
	if was == nil || c.m.Mark() != nil {
		return nil
	}
	from, ahead := c.store.Timeline().Ahead(*was, c.store.Rev())
	if !ahead {
		return nil
	}
	err := c.beginRecovery(ctx, backup.Proof{Peer: state.TheRoot, By: "the root", Has: *was, From: from}, now)
	if err != nil {
		c.was.CompareAndSwap(nil, was)
	}
	return err
}

// beginRecovery makes the root and the workers be heard before anything is decided:
// somebody has seen a later state than the store has. The mutex is held.
func (c *core) beginRecovery(ctx context.Context, p backup.Proof, now time.Time) error {
	c.m.Recovery.Proven[p.Peer] = p.Has
	mark := c.m.Mark().Behind(c.m.Past(), p, append(records.SortedKeys(c.m.Workers), state.TheRoot), now)
	if mark == nil {
		return nil
	}
	t := c.m.begin()
	state.MarkTable.Put(t.Rows, "", mark)
	if err := c.keeper.Whole(ctx, t); err != nil {
		return fmt.Errorf("this cluster is an older copy of what %s has seen, and cannot store that: %w", p.By, err)
	}
	c.m.Recovery.Settled = false
	what := fmt.Sprintf("%s has seen a later state (%s) than this cluster's data directory has: it is an older copy; "+
		"nothing is decided until the root and the workers have been heard", p.By, p.Has)
	if p.Twin {
		what = fmt.Sprintf("%s was told a state (%s) by another process with the keys of this cluster: two work on copies of one data directory, stop one of them", p.By, p.Has)
	}
	c.events.Add(now, c.m.Tier(), "cluster/"+c.name, what)
	c.log.Warn(what)
	loop.Poke(c.wake)
	return nil
}

// adopt makes an instance that runs on a worker known where it is wanted and the
// backup has nothing later of it.
func (t *tx) adopt(worker string, st wire.InstanceStatus, now time.Time) {
	parts := strings.Split(st.ID, ".")
	if len(parts) != 3 || st.Phase != wire.PhaseRunning {
		return
	}
	ordinal, err := strconv.Atoi(parts[2])
	s := t.m.Shares[parts[0]+"."+parts[1]]
	if err != nil || s == nil || instanceID(s.App, s.Service, ordinal) != st.ID {
		return
	}
	i := wire.Instance{V: wire.Version, ID: st.ID, App: s.App, Service: s.Service, Ordinal: ordinal}
	if !t.wanted(&i) {
		return
	}
	if old := t.Inst(st.ID); old != nil && old.Incarnation >= st.Incarnation && t.confirmed(old) {
		return
	}
	why := "it runs on a worker, the cluster did not know of that"
	i.Cluster, i.Worker, i.Incarnation, i.Revision = t.m.Name, worker, st.Incarnation, st.Revision
	i.State, i.Since, i.Ready, i.Restarts = wire.Running, now.Round(0), st.Ready, st.Restarts
	i.Starts, i.Ran = 1+st.Restarts, st.Incarnation
	i.History = []wire.Transition{{To: wire.ClusterScheduled, At: i.Since, Tier: t.m.Tier(), Why: "recovered"}, {To: wire.Running, At: i.Since, Tier: "worker/" + worker, Why: why}}
	t.Event("instance/"+st.ID, "incarnation %d on %s was not known here: taken over", st.Incarnation, worker)
	n := t.net.AdoptNumber(s, st)
	if st.Revision == s.Revision {
		i.Restarted, i.Program = restartOf(s, ordinal).N, s.Spec.ProgramID()
		t.Put(i)
		t.giveOrder(&i, s)
		if o := t.Orders[worker+"."+i.ID]; o != nil && n != 0 && o.AppNumber != n {
			t.Orders[worker+"."+i.ID].AppNumber = n // what runs has addresses of that
		}
		return
	}
	// What it runs is not known, only that it is not what is wanted now.
	i.State = wire.WorkerScheduled
	t.start(i, s)
}

// confirmed: what is stored of an instance is what its worker says, or may still
// say. An instance that was ended and made anew after the backup begins again with
// its first incarnation, so that the number alone does not tell which is later.
func (t *tx) confirmed(i *wire.Instance) bool {
	w := t.m.Workers[i.Worker]
	if w == nil {
		return false
	}
	if !w.EverHeard || w.Inbox.Ack().Inc == "" {
		return true
	}
	st, ok := w.Status[i.ID]
	return ok && st.Phase == wire.PhaseRunning && st.Incarnation == i.Incarnation && st.Revision == i.Revision
}

// recoveryView says how far the recovery is.
func (m *model) recoveryView() wire.RecoveryView {
	v := wire.RecoveryView{Peers: []wire.RecoveryPeer{}}
	mark := m.Mark()
	if mark == nil {
		return v
	}
	v.Restored, v.Made, v.Holding, v.Dropped = mark.At, mark.Made, m.Unasked(state.TheRoot), mark.Dropped
	v.Ahead, v.Twin = mark.Ahead, mark.Twin
	v.Peers = append(v.Peers, wire.RecoveryPeer{Name: "root", Asked: mark.Asked[state.TheRoot]})
	for _, name := range records.SortedKeys(m.Workers) {
		v.Peers = append(v.Peers, wire.RecoveryPeer{Name: name, Asked: mark.Asked[name]})
	}
	return v
}

// recoveryProblem is what people must know about a recovery, "" for nothing.
func recoveryProblem(v wire.RecoveryView) string {
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

// Recovery implements rest.Backend.
func (b backend) Recovery(context.Context) (wire.RecoveryView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.m.recoveryView(), nil
}

// FinishRecovery implements rest.Backend.
func (b backend) FinishRecovery(ctx context.Context, name string) error {
	return b.finishRecovery(ctx, name, time.Now())
}

func (c *core) finishRecovery(ctx context.Context, name string, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reload(ctx, now); err != nil {
		return unstored(err)
	}
	if c.m.Mark() == nil {
		return wire.Problemf(409, "not-recovering", "verge status", "there is no recovery to end", "cluster %s was not restored, or its recovery has ended", c.name)
	}
	peer := name
	switch {
	case name == "root":
		peer = state.TheRoot
	case name != "" && c.m.Workers[name] == nil:
		return wire.Problemf(404, "no-such-worker", "verge recovery", "there is no such worker", "%.63s is not in cluster %s", name, c.name)
	}
	t := c.m.begin()
	for _, other := range append(records.SortedKeys(c.m.Workers), state.TheRoot) {
		if (peer == "" || peer == other) && c.m.Unasked(other) {
			t.settlePast(t.past().Without(other, c.m.Recovery.Proven[other]))
		}
	}
	if peer == "" {
		t.settlePast(t.past().Ended(c.m.Mark(), c.store.Rev()))
		state.MarkTable.Put(t.Rows, "", nil)
	} else {
		state.MarkTable.Put(t.Rows, "", c.m.Mark().Heard(peer, now))
	}
	if err := c.keeper.Whole(ctx, t); err != nil {
		return unstored(err)
	}
	what := "as a whole"
	if name != "" {
		what = "for " + name
	}
	c.events.Add(now, c.m.Tier(), "cluster/"+c.name, fmt.Sprintf("the recovery was ended %s by %s", what, rest.Caller(ctx)))
	loop.Poke(c.wake)
	return nil
}
