package backend

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/placement"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumemove"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// MoveVolumes implements rest.Backend.
func (b *Backend) MoveVolumes(ctx context.Context, cluster, worker string, r wire.VolumeRef,
	q apiv1.VolumeMoveRequest) error {
	return b.changeMove(ctx, cluster, worker, r,
		func(t *state.Tx, i wire.Instance, now time.Time) (wire.Instance, error) {
			const title = "the volume cannot be moved"
			s := rollouts.ShareFor(t, &i)
			switch {
			case t.Model.Workers[q.To] == nil:
				return i, workers.NoWorker(b.ClusterName, q.To)
			case volumes.IsLeft(b.M, q.To, r) != "":
				return i, wire.Problemf(409, "volume-there",
					"remove that one, if nobody needs what is in it: verge volume rm "+b.ClusterName+"/"+q.To+"/"+r.String(),
					title, "worker %s has another one that does not count: %s", q.To, volumes.IsLeft(b.M, q.To, r))
			case q.To == worker:
				return i, wire.Problemf(409, "volume-there", "name another worker: verge get workers", title,
					"it is on worker %s", worker)
			}
			if err := volumemove.Free(t, &i, worker, title); err != nil {
				return i, err
			}
			there := i
			there.Pinned = q.To
			if d := placement.Schedule(t, &there, s, nil); d.Chosen != q.To {
				return i, wire.Problemf(409, "no-room", "choose another worker: verge get workers", title,
					"worker %s cannot take %s: %s", q.To, i.ID, d.Reason)
			}
			i.Volumes = &wire.VolumeMove{
				From: worker, To: q.To, Since: now.Round(0), By: rest.Caller(ctx),
				Work: wire.VolumeWork{Key: wire.NewID(), Do: wire.VolumePack, Volumes: volumemove.Named(&i, s)},
			}
			t.Event(event.InstanceVolumes, i.ID, "its volumes are to be moved from worker %s to worker %s, by %s",
				worker,
				q.To, rest.Caller(ctx))
			return i, nil
		})
}

// SnapshotVolume implements rest.Backend.
func (b *Backend) SnapshotVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef,
	q apiv1.VolumeSnapshotRequest) error {
	if b.hasVolume(cluster, worker, r) { // else that is what is wrong
		if err := b.newSnapshot(ctx, r.Namespace, q.Object); err != nil {
			return err
		}
	}
	return b.changeOne(ctx, cluster, worker, r, wire.VolumeObject{Name: r.Name, Object: q.Object}, wire.VolumePack,
		"a snapshot of its volume %s is to be made in object %s, by %s")
}

// RestoreVolume implements rest.Backend.
func (b *Backend) RestoreVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef,
	q apiv1.VolumeSnapshotRequest) error {
	v := wire.VolumeObject{Name: r.Name, Object: q.Object}
	if b.hasVolume(cluster, worker, r) { // else that is what is wrong
		var err error
		if v.Digest, err = b.toRestore(ctx, r.Namespace, q); err != nil {
			return err // nothing was stopped
		}
	}
	return b.changeOne(ctx, cluster, worker, r, v, wire.VolumeRestore,
		"its volume %s is to be restored from object %s, by %s")
}

// hasVolume says whether there is such a volume, which an instance uses.
func (b *Backend) hasVolume(cluster, worker string, r wire.VolumeRef) bool {
	return core.View(b.Core, func(m *state.Model) bool {
		i := m.Insts[r.Instance]
		return cluster == b.ClusterName && m.Workers[worker] != nil && i != nil &&
			m.Shares[i.App+"."+i.Service] != nil &&
			volumes.Keeps(m, worker, r)
	})
}

// changeOne begins something with one volume that stays where it is.
func (b *Backend) changeOne(ctx context.Context, cluster, worker string, r wire.VolumeRef, v wire.VolumeObject, do,
	said string) error {
	if err := wire.CheckObjectName(v.Object); err != nil {
		return err
	}
	return b.changeMove(ctx, cluster, worker, r,
		func(t *state.Tx, i wire.Instance, now time.Time) (wire.Instance, error) {
			if err := volumemove.Free(t, &i, worker, "that cannot be done with the volume now"); err != nil {
				return i, err
			}
			i.Volumes = &wire.VolumeMove{
				From: worker, Since: now.Round(0), By: rest.Caller(ctx),
				Work: wire.VolumeWork{Key: wire.NewID(), Do: do, Volumes: []wire.VolumeObject{v}},
			}
			t.Event(event.InstanceVolumes, i.ID, said, r.Name, v.Object, rest.Caller(ctx))
			return i, nil
		})
}

// CancelVolumes implements rest.Backend.
func (b *Backend) CancelVolumes(ctx context.Context, cluster, worker string, r wire.VolumeRef) error {
	return b.changeMove(ctx, cluster, worker, r,
		func(t *state.Tx, i wire.Instance, now time.Time) (wire.Instance, error) {
			if i.Volumes == nil {
				return i, wire.Problemf(409, "not-moving", "verge volume ls", "the volume is not being moved",
					"%s is %s",
					i.ID, i.State)
			}
			return volumemove.Stay(t, i, rollouts.ShareFor(t, &i), "that was cancelled by "+rest.Caller(ctx), now), nil
		})
}

// changeMove stores what change makes of an instance that has a volume.
func (b *Backend) changeMove(ctx context.Context, cluster, worker string, r wire.VolumeRef,
	change func(*state.Tx, wire.Instance, time.Time) (wire.Instance, error)) error {
	if cluster != b.ClusterName {
		return rest.ElsewhereAt("moving a volume", cluster)
	}
	return core.Update(ctx, b.Core, time.Now(), func(t *state.Tx) error {
		now := t.Now
		old := t.Model.Insts[r.Instance]
		if t.Model.Workers[worker] == nil {
			return workers.NoWorker(b.ClusterName, worker)
		}
		if old == nil || !volumes.Keeps(t.Model, worker, r) {
			return wire.Problemf(404, "no-such-volume", "verge volume ls", "no instance uses such a volume",
				"%s is not on worker %s, or nothing uses it there", r, worker)
		}
		if rollouts.ShareFor(t, old) == nil {
			return wire.Problemf(409, "being-removed",
				"wait until it is gone; what is in its volumes stays: verge volume ls --unused",
				"nothing can be done with the volume now", "%s was removed, and %s still ends", old.App, r.Instance)
		}
		next, err := change(t, *old, now)
		if err == nil {
			t.Insts[r.Instance] = &next
		}
		return err
	})
}
