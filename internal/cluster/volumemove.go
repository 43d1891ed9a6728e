package cluster

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// The named volumes of an instance are moved while it is stopped: its worker packs them
// into the cluster's object store, the other worker makes them of it and compares, and
// only then is the instance given to that one. Each step is an order, so that whoever
// was away goes on with it, and until the last one the volumes where it was are the
// ones that count; they stay there afterwards, too.

// namedVolumes of a service, as objects of an instance.
func namedVolumes(i *wire.Instance, s *wire.Share) (out []wire.VolumeObject) {
	for _, v := range s.Spec.Volumes {
		if v.Name != "" {
			out = append(out, wire.VolumeObject{Name: v.Name, Object: "volumes/" + i.ID + "/" + v.Name})
		}
	}
	return out
}

// moveVolumes takes a move one step further. Where it is over, or cannot go on, the
// instance has none any more.
func (t *tx) moveVolumes(i wire.Instance, now time.Time) wire.Instance {
	s, m := t.shareFor(&i), *i.Volumes
	switch {
	case s == nil || !t.wanted(&i) || i.State == wire.Terminated:
		i.Volumes = nil
		return i
	case t.m.Workers[m.From] == nil && m.Work.Do != wire.VolumeUnpack:
		i.Volumes = nil // what becomes of it is decided as of any other
		return i
	case m.To != "" && t.m.Workers[m.To] == nil:
		return t.volumesStay(i, s, "worker "+m.To+" was removed from the cluster", now)
	}
	if i.State == wire.Running {
		i = t.Advance(i, wire.WorkerScheduled, now, t.m.Tier(), volumeWords(&m, "stopped while "))
		i.Ready, i.Draining, i.Unreachable = false, false, false
	}
	at, doing := m.From, "they are copied from it to the cluster's object store"
	switch m.Work.Do {
	case wire.VolumeUnpack:
		at, doing = m.To, "they are copied to it from the cluster's object store, and compared"
	case wire.VolumeRestore:
		doing = "it is copied to it from the cluster's object store, and compared"
	}
	w := t.m.Workers[at]
	st := w.Status[i.ID]
	report := st.Volumes
	i.Reason = volumeWords(&m, "") + ": "
	switch {
	case w.Suspect || !w.EverHeard:
		i.Reason += "waits for worker " + at + ", which is away"
	case !report.About(&m.Work) && st.Phase != wire.PhaseStopped && at == m.From && st.ID != "":
		i.Reason += "the instance ends by its stop rule"
	case !report.About(&m.Work), !report.Done && report.Why == "":
		i.Reason += "worker " + at + ": " + doing
	case !report.Done && report.Final:
		return t.volumesStay(i, s, "worker "+at+": "+report.Why, now)
	case !report.Done:
		i.Reason += "worker " + at + " tries it again: " + report.Why
	case m.Work.Do == wire.VolumePack:
		if why := unlike(m.Work.Volumes, report.Volumes); why != "" {
			return t.volumesStay(i, s, "worker "+at+" "+why, now)
		}
		if m.To == "" {
			t.noteSnapshot(&i, s, report.Volumes[0], now)
			return t.volumesDone(i, s, "the snapshot is in the cluster's object store: "+inWords(report.Volumes))
		}
		m.Work.Do, m.Work.Volumes = wire.VolumeUnpack, report.Volumes
		i.Volumes = &m
		t.Event("instance/"+i.ID, "its volumes are in the cluster's object store: %s", inWords(report.Volumes))
	case m.Work.Do == wire.VolumeRestore:
		return t.volumesDone(i, s, "its volume "+m.Work.Volumes[0].Name+" is as in object "+m.Work.Volumes[0].Object)
	default:
		i.VolumesEnded = &wire.VolumesEnded{Key: m.Work.Key}
		t.leaveVolumes(&i, s, m.From, "they were moved to worker "+m.To, m.By)
		if there := m.To + "." + i.ID; t.m.leftVolumes[there] != nil { // what is there now counts
			t.leftVolumes[there] = nil
		}
		i.Volumes, i.Worker, i.Pinned, i.Former = nil, m.To, m.To, ""
		i.Avoid, i.LastExit = nil, nil
		t.Event("instance/"+i.ID, "its volumes are on worker %s now, compared with what was packed; the former copy stays on worker %s until somebody removes it: verge volume ls --unused", m.To, m.From)
		i.Reason = "its volumes were moved from worker " + m.From
		t.start(i, s)
		t.recount()
		return *t.Inst(i.ID)
	}
	return i
}

// volumeWords says what is done with the volumes of an instance.
func volumeWords(m *wire.VolumeMove, before string) string {
	switch {
	case m.Work.Do == wire.VolumeRestore:
		return before + "its volume " + m.Work.Volumes[0].Name + " is restored"
	case m.To == "":
		return before + "a snapshot of its volume is made"
	case before != "":
		return before + "its volumes are moved to another worker"
	}
	return fmt.Sprintf("its volumes are moved from worker %s to worker %s", m.From, m.To)
}

// volumesDone ends what was done with volumes that stay where they are.
func (t *tx) volumesDone(i wire.Instance, s *wire.Share, what string) wire.Instance {
	i.VolumesEnded = &wire.VolumesEnded{Key: i.Volumes.Work.Key}
	i.Volumes, i.Reason = nil, what
	t.Event("instance/"+i.ID, "%s", what)
	t.start(i, s)
	return *t.Inst(i.ID)
}

// unlike says why what was packed is not what was to be packed, "" if it is.
func unlike(asked, packed []wire.VolumeObject) string {
	if len(asked) != len(packed) {
		return fmt.Sprintf("packed %d volumes and not %d", len(packed), len(asked))
	}
	for k, v := range packed {
		if v.Name != asked[k].Name || v.Object != asked[k].Object || v.Digest == "" {
			return fmt.Sprintf("packed %q and not volume %s", v.Name, asked[k].Name)
		}
	}
	return ""
}

func inWords(list []wire.VolumeObject) string {
	var out []string
	for _, v := range list {
		left := ""
		if v.Left > 0 {
			left = fmt.Sprintf(", without %s: %s", wire.Count(v.Left, "socket or pipe"), strings.Join(v.Examples, ", "))
		}
		out = append(out, fmt.Sprintf("%s (%s, %s, sha256:%.12s%s)", v.Name, wire.Count(v.Files, "file"), api.Bytes(v.Size), v.Digest, left))
	}
	return strings.Join(out, ", ")
}

// volumesStay ends a move that came to nothing: the instance starts again where its
// volumes are.
func (t *tx) volumesStay(i wire.Instance, s *wire.Share, why string, now time.Time) wire.Instance {
	m := i.Volumes
	i.Volumes, i.VolumesEnded = nil, &wire.VolumesEnded{Key: m.Work.Key, Why: why}
	t.Event("instance/"+i.ID, "%s: that came to nothing, %s; it goes on on worker %s", volumeWords(m, ""), why, m.From)
	if i.State == wire.Running {
		i = t.Advance(i, wire.WorkerScheduled, now, t.m.Tier(), "it starts again with its volumes where and as they were")
	}
	i.Reason = "its volumes stay where and as they were: " + why
	t.start(i, s)
	return *t.Inst(i.ID)
}

// orderVolumes keeps the orders of both sides of a move: both stop the instance.
func (t *tx) orderVolumes(i *wire.Instance, want map[string]bool) {
	s, m := t.shareFor(i), i.Volumes
	if s == nil {
		return
	}
	order := func(worker string, w *wire.VolumeWork) {
		key := worker + "." + i.ID
		want[key] = true
		if o := t.Ordered(key); o != nil && o.Stop && o.Incarnation == i.Incarnation && o.Volumes.Same(w) {
			return
		}
		t.Order(worker, i.ID, &wire.Order{
			V: wire.Version, ID: i.ID, App: i.App, Namespace: s.Namespace, Service: i.Service, Ordinal: i.Ordinal,
			Incarnation: i.Incarnation, Revision: i.Revision, Spec: s.Spec, AppNumber: t.net.OrderNumber(i, s), Stop: true, Volumes: w,
		})
	}
	if m.Work.Do != wire.VolumeUnpack {
		order(m.From, &m.Work)
		return
	}
	if t.m.Workers[m.From] != nil {
		order(m.From, &wire.VolumeWork{Key: m.Work.Key, Do: wire.VolumeHold})
	}
	order(m.To, &m.Work)
}

// MoveVolumes implements rest.Backend.
func (b backend) MoveVolumes(ctx context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeMoveRequest) error {
	return b.changeMove(ctx, cluster, worker, r, func(t *tx, i wire.Instance, now time.Time) (wire.Instance, error) {
		const title = "the volume cannot be moved"
		s := t.shareFor(&i)
		switch {
		case t.m.Workers[q.To] == nil:
			return i, b.noWorker(q.To)
		case b.m.isLeft(q.To, r) != "":
			return i, wire.Problemf(409, "volume-there", "remove that one, if nobody needs what is in it: verge volume rm "+b.name+"/"+q.To+"/"+r.String(), title, "worker %s has another one that does not count: %s", q.To, b.m.isLeft(q.To, r))
		case q.To == worker:
			return i, wire.Problemf(409, "volume-there", "name another worker: verge get workers", title, "it is on worker %s", worker)
		}
		if err := t.volumesFree(&i, worker, title); err != nil {
			return i, err
		}
		there := i
		there.Pinned = q.To
		if d := t.schedule(&there, s, nil); d.Chosen != q.To {
			return i, wire.Problemf(409, "no-room", "choose another worker: verge get workers", title, "worker %s cannot take %s: %s", q.To, i.ID, d.Reason)
		}
		i.Volumes = &wire.VolumeMove{
			From: worker, To: q.To, Since: now.Round(0), By: rest.Caller(ctx),
			Work: wire.VolumeWork{Key: wire.NewID(), Do: wire.VolumePack, Volumes: namedVolumes(&i, s)},
		}
		t.Event("instance/"+i.ID, "its volumes are to be moved from worker %s to worker %s, by %s", worker, q.To, rest.Caller(ctx))
		return i, nil
	})
}

// SnapshotVolume implements rest.Backend.
func (b backend) SnapshotVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeSnapshotRequest) error {
	if b.hasVolume(cluster, worker, r) { // else that is what is wrong
		if err := b.newSnapshot(ctx, r.Namespace, q.Object); err != nil {
			return err
		}
	}
	return b.changeOne(ctx, cluster, worker, r, wire.VolumeObject{Name: r.Name, Object: q.Object}, wire.VolumePack, "a snapshot of its volume %s is to be made in object %s, by %s")
}

// RestoreVolume implements rest.Backend.
func (b backend) RestoreVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeSnapshotRequest) error {
	v := wire.VolumeObject{Name: r.Name, Object: q.Object}
	if b.hasVolume(cluster, worker, r) { // else that is what is wrong
		var err error
		if v.Digest, err = b.toRestore(ctx, r.Namespace, q); err != nil {
			return err // nothing was stopped
		}
	}
	return b.changeOne(ctx, cluster, worker, r, v, wire.VolumeRestore, "its volume %s is to be restored from object %s, by %s")
}

// hasVolume says whether there is such a volume, which an instance uses.
func (b backend) hasVolume(cluster, worker string, r wire.VolumeRef) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.m.Insts[r.Instance]
	return cluster == b.name && b.m.Workers[worker] != nil && i != nil && b.m.Shares[i.App+"."+i.Service] != nil && b.m.keeps(worker, r)
}

// changeOne begins something with one volume that stays where it is.
func (b backend) changeOne(ctx context.Context, cluster, worker string, r wire.VolumeRef, v wire.VolumeObject, do, said string) error {
	if err := wire.CheckObjectName(v.Object); err != nil {
		return err
	}
	return b.changeMove(ctx, cluster, worker, r, func(t *tx, i wire.Instance, now time.Time) (wire.Instance, error) {
		if err := t.volumesFree(&i, worker, "that cannot be done with the volume now"); err != nil {
			return i, err
		}
		i.Volumes = &wire.VolumeMove{
			From: worker, Since: now.Round(0), By: rest.Caller(ctx),
			Work: wire.VolumeWork{Key: wire.NewID(), Do: do, Volumes: []wire.VolumeObject{v}},
		}
		t.Event("instance/"+i.ID, said, r.Name, v.Object, rest.Caller(ctx))
		return i, nil
	})
}

// volumesFree says why nothing can be done with the volumes that an instance has on a
// worker, nil if it can.
func (t *tx) volumesFree(i *wire.Instance, worker, title string) error {
	switch {
	case i.Volumes != nil:
		return wire.Problemf(409, "volume-busy", "wait until it is over (verge describe instance/"+i.ID+"), or cancel it: verge volume move --cancel", "the volume is busy", "%s, since %s", volumeWords(i.Volumes, ""), i.Volumes.Since.Format(time.RFC3339))
	case i.Pinned != worker || i.Worker != worker || i.State != wire.Running && i.State != wire.WorkerScheduled:
		return wire.Problemf(409, "volume-unused", "verge describe instance/"+i.ID, title, "%s is %s, and its volume on worker %s is not the one that it uses (that is on %q)", i.ID, i.State, worker, cmp.Or(i.Pinned, "no worker"))
	case t.m.jobOf(i) != nil || underWay(i) || i.Leaving != nil:
		return wire.Problemf(409, "volume-busy", "try again when it is over", "the volume is busy", "%s is being moved, or belongs to a job", i.ID)
	case t.m.Away(worker):
		return wire.Problemf(409, "worker-away", "wait until it is back; what is on it is nowhere else", title, "worker %s, which has it, is away", worker)
	}
	return nil
}

// CancelVolumes implements rest.Backend.
func (b backend) CancelVolumes(ctx context.Context, cluster, worker string, r wire.VolumeRef) error {
	return b.changeMove(ctx, cluster, worker, r, func(t *tx, i wire.Instance, now time.Time) (wire.Instance, error) {
		if i.Volumes == nil {
			return i, wire.Problemf(409, "not-moving", "verge volume ls", "the volume is not being moved", "%s is %s", i.ID, i.State)
		}
		return t.volumesStay(i, t.shareFor(&i), "that was cancelled by "+rest.Caller(ctx), now), nil
	})
}

// changeMove stores what change makes of an instance that has a volume.
func (b backend) changeMove(ctx context.Context, cluster, worker string, r wire.VolumeRef, change func(*tx, wire.Instance, time.Time) (wire.Instance, error)) error {
	if cluster != b.name {
		return rest.ElsewhereAt("moving a volume", cluster)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if err := b.reload(ctx, now); err != nil {
		return unstored(err)
	}
	old := b.m.Insts[r.Instance]
	if b.m.Workers[worker] == nil {
		return b.noWorker(worker)
	}
	if old == nil || !b.m.keeps(worker, r) {
		return wire.Problemf(404, "no-such-volume", "verge volume ls", "no instance uses such a volume", "%s is not on worker %s, or nothing uses it there", r, worker)
	}
	t := b.m.begin()
	t.Now = now
	if t.shareFor(old) == nil {
		return wire.Problemf(409, "being-removed", "wait until it is gone; what is in its volumes stays: verge volume ls --unused", "nothing can be done with the volume now", "%s was removed, and %s still ends", old.App, r.Instance)
	}
	next, err := change(t, *old, now)
	if err != nil {
		return err
	}
	t.Insts[r.Instance] = &next
	if err := b.keeper.Whole(ctx, t); err != nil {
		return unstored(err)
	}
	for _, e := range t.Events {
		b.events.Add(now, b.m.Tier(), e.Subject, e.What)
	}
	loop.Poke(b.wake)
	return nil
}
