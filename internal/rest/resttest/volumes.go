package resttest

import (
	"context"
	"slices"

	"github.com/verge-edge/verge/internal/wire"
)

// Volumes are those of VolumeList that are on the worker.
func (f *Fake) Volumes(_ context.Context, cluster, worker string) ([]wire.VolumeView, error) {
	list, err := all(f, "volumes", &f.VolumeList)
	return slices.DeleteFunc(list, func(v wire.VolumeView) bool { return v.Cluster != cluster || v.Worker != worker }), err
}

// RemoveVolume takes one out of VolumeList that is not in use.
func (f *Fake) RemoveVolume(_ context.Context, cluster, worker string, r wire.VolumeRef) error {
	end, err := f.begin("remove-volume")
	if err != nil {
		return err
	}
	defer end()
	for i, v := range f.VolumeList {
		if v.Cluster != cluster || v.Worker != worker || v.VolumeRef != r {
			continue
		}
		if v.InUse {
			return wire.Problemf(409, "volume-in-use", "delete what uses it first", "the volume is in use", "%s names %s", r.Instance, r.Name)
		}
		f.VolumeList = slices.Delete(slices.Clone(f.VolumeList), i, i+1)
		return nil
	}
	return missing("volume", r.String())
}

// MoveVolumes lets a volume that is in use be on another worker at once.
func (f *Fake) MoveVolumes(_ context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeMoveRequest) error {
	end, err := f.begin("move-volume")
	if err != nil {
		return err
	}
	defer end()
	for i, v := range f.VolumeList {
		if v.Cluster == cluster && v.Worker == worker && v.VolumeRef == r && v.InUse {
			f.VolumeList = slices.Clone(f.VolumeList)
			f.VolumeList[i].Worker = q.To
			return nil
		}
	}
	return missing("volume", r.String())
}

// CancelVolumes knows of none that is being moved.
func (f *Fake) CancelVolumes(_ context.Context, _, _ string, r wire.VolumeRef) error {
	end, err := f.begin("cancel-volume-move")
	if err != nil {
		return err
	}
	defer end()
	return wire.Problemf(409, "not-moving", "verge volume ls", "the volume is not being moved", "%s", r.Instance)
}

// ForgetVolumes finds a volume that is in use, and lets it be unused.
func (f *Fake) ForgetVolumes(_ context.Context, cluster, worker string, r wire.VolumeRef, q wire.VolumeForgetRequest) error {
	end, err := f.begin("forget-volume")
	if err != nil {
		return err
	}
	defer end()
	if q.Confirm != r.Instance {
		return wire.Problemf(422, "not-confirmed", "say that it is meant: --confirm "+r.Instance, "the volume is not given up", "%s would begin elsewhere", r.Instance)
	}
	for i, v := range f.VolumeList {
		if v.Cluster == cluster && v.Worker == worker && v.VolumeRef == r && v.InUse {
			f.VolumeList = slices.Clone(f.VolumeList)
			f.VolumeList[i].InUse, f.VolumeList[i].Left = false, "given up"
			return nil
		}
	}
	return missing("volume", r.String())
}

// SnapshotVolume finds a volume that is in use.
func (f *Fake) SnapshotVolume(_ context.Context, cluster, worker string, r wire.VolumeRef, _ wire.VolumeSnapshotRequest) error {
	end, err := f.begin("snapshot-volume")
	if err != nil {
		return err
	}
	defer end()
	return f.used(cluster, worker, r)
}

// RestoreVolume does, too.
func (f *Fake) RestoreVolume(_ context.Context, cluster, worker string, r wire.VolumeRef, _ wire.VolumeSnapshotRequest) error {
	end, err := f.begin("restore-volume")
	if err != nil {
		return err
	}
	defer end()
	return f.used(cluster, worker, r)
}

func (f *Fake) used(cluster, worker string, r wire.VolumeRef) error {
	for _, v := range f.VolumeList {
		if v.Cluster == cluster && v.Worker == worker && v.VolumeRef == r && v.InUse {
			return nil
		}
	}
	return missing("volume", r.String())
}

// Snapshots are those of SnapshotList.
func (f *Fake) Snapshots(context.Context) ([]wire.SnapshotView, error) {
	return all(f, "snapshots", &f.SnapshotList)
}
