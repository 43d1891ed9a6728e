package resttest

import (
	"context"
	"slices"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// RemoveWorker takes one out of WorkerList.
func (f *Fake) RemoveWorker(_ context.Context, cluster, worker string, _ bool) error {
	return f.leave("remove-worker", "worker", cluster+"/"+worker, func() bool {
		before := len(f.WorkerList)
		f.WorkerList = slices.DeleteFunc(f.WorkerList,
			func(w rpc.WorkerView) bool { return w.Cluster == cluster && w.Name == worker })
		return len(f.WorkerList) < before
	})
}

// RevokeWorker changes nothing.
func (f *Fake) RevokeWorker(_ context.Context, cluster, worker string) error {
	return f.leave("revoke-worker", "worker", cluster+"/"+worker, func() bool {
		return slices.ContainsFunc(f.WorkerList,
			func(w rpc.WorkerView) bool { return w.Cluster == cluster && w.Name == worker })
	})
}

// RevokePlugin changes nothing.
func (f *Fake) RevokePlugin(_ context.Context, plugin string) error {
	return f.leave("revoke-plugin", "plugin", plugin, func() bool { return plugin != "nobody" })
}

// RemoveCluster takes one out of ClusterList.
func (f *Fake) RemoveCluster(_ context.Context, cluster string, _ bool) error {
	return f.leave("remove-cluster", "cluster", cluster, func() bool {
		before := len(f.ClusterList)
		f.ClusterList = slices.DeleteFunc(f.ClusterList, func(c apiv1.ClusterView) bool { return c.Name == cluster })
		return len(f.ClusterList) < before
	})
}

// RevokeCluster changes nothing.
func (f *Fake) RevokeCluster(_ context.Context, cluster string) error {
	return f.leave("revoke-cluster", "cluster", cluster, func() bool {
		return slices.ContainsFunc(f.ClusterList, func(c apiv1.ClusterView) bool { return c.Name == cluster })
	})
}

func (f *Fake) leave(op, kind, name string, do func() bool) error {
	end, err := f.begin(op)
	if err != nil {
		return err
	}
	defer end()
	if !do() {
		return missing(kind, name)
	}
	return nil
}

// Route is the one of Routes for that worker and service.
func (f *Fake) Route(_ context.Context, cluster, worker, app, service string) (rpc.RouteReport, error) {
	list, err := all(f, "route", &f.Routes)
	for _, r := range list {
		if r.Cluster == cluster && r.Worker == worker && r.App == app && r.Service == service {
			return r, err
		}
	}
	if err == nil {
		err = wire.Problemf(404, "no-route", "verge get services lists them", "this worker has no route to the service",
			"%s.%s", app, service)
	}
	return rpc.RouteReport{}, err
}

// Net is the one of Nets for that worker.
func (f *Fake) Net(_ context.Context, cluster, worker string) (rpc.NetReport, error) {
	list, err := all(f, "net", &f.Nets)
	for _, n := range list {
		if n.Cluster == cluster && n.Worker == worker {
			return n, err
		}
	}
	if err == nil {
		err = missing("worker", cluster+"/"+worker)
	}
	return rpc.NetReport{}, err
}

// Upgrade answers with UpgradeAnswer.
func (f *Fake) Upgrade(context.Context) (apiv1.UpgradeView, error) {
	return give(f, "upgrade", &f.UpgradeAnswer)
}

// StartUpgrade notes the request and answers with UpgradeAnswer.
func (f *Fake) StartUpgrade(_ context.Context, q apiv1.UpgradeRequest) (apiv1.UpgradeView, error) {
	return do(f, "start-upgrade", func() (apiv1.UpgradeView, error) {
		f.Upgrades = append(f.Upgrades, q)
		return f.UpgradeAnswer, nil
	})
}

// ChangeUpgrade notes the action and answers with UpgradeAnswer.
func (f *Fake) ChangeUpgrade(_ context.Context, action string, _ apiv1.UpgradeAction) (apiv1.UpgradeView, error) {
	return do(f, "change-upgrade", func() (apiv1.UpgradeView, error) {
		f.UpgradeActions = append(f.UpgradeActions, action)
		return f.UpgradeAnswer, nil
	})
}

// Volumes are those of VolumeList that are on the worker.
func (f *Fake) Volumes(_ context.Context, cluster, worker string) ([]rpc.VolumeView, error) {
	list, err := all(f, "volumes", &f.VolumeList)
	return slices.DeleteFunc(list, func(v rpc.VolumeView) bool { return v.Cluster != cluster || v.Worker != worker }),
		err
}

// RemoveVolume takes one out of VolumeList that is not in use.
func (f *Fake) RemoveVolume(_ context.Context, cluster, worker string, r wire.VolumeRef) error {
	return f.run("remove-volume", func() error {
		for i, v := range f.VolumeList {
			if v.Cluster != cluster || v.Worker != worker || v.VolumeRef != r {
				continue
			}
			if v.InUse {
				return wire.Problemf(409, "volume-in-use", "delete what uses it first", "the volume is in use",
					"%s names %s", r.Instance, r.Name)
			}
			f.VolumeList = slices.Delete(slices.Clone(f.VolumeList), i, i+1)
			return nil
		}
		return missing("volume", r.String())
	})
}

// MoveVolumes lets a volume that is in use be on another worker at once.
func (f *Fake) MoveVolumes(_ context.Context, cluster, worker string, r wire.VolumeRef,
	q apiv1.VolumeMoveRequest) error {
	return f.run("move-volume", func() error {
		for i, v := range f.VolumeList {
			if v.Cluster == cluster && v.Worker == worker && v.VolumeRef == r && v.InUse {
				f.VolumeList = slices.Clone(f.VolumeList)
				f.VolumeList[i].Worker = q.To
				return nil
			}
		}
		return missing("volume", r.String())
	})
}

// CancelVolumes knows of none that is being moved.
func (f *Fake) CancelVolumes(_ context.Context, _, _ string, r wire.VolumeRef) error {
	return f.run("cancel-volume-move", func() error {
		return wire.Problemf(409, "not-moving", "verge volume ls", "the volume is not being moved", "%s", r.Instance)
	})
}

// ForgetVolumes finds a volume that is in use, and lets it be unused.
func (f *Fake) ForgetVolumes(_ context.Context, cluster, worker string, r wire.VolumeRef,
	q apiv1.VolumeForgetRequest) error {
	return f.run("forget-volume", func() error {
		if q.Confirm != r.Instance {
			return wire.Problemf(422, "not-confirmed", "say that it is meant: --confirm "+r.Instance,
				"the volume is not given up", "%s would begin elsewhere", r.Instance)
		}
		for i, v := range f.VolumeList {
			if v.Cluster == cluster && v.Worker == worker && v.VolumeRef == r && v.InUse {
				f.VolumeList = slices.Clone(f.VolumeList)
				f.VolumeList[i].InUse, f.VolumeList[i].Left = false, "given up"
				return nil
			}
		}
		return missing("volume", r.String())
	})
}

// SnapshotVolume finds a volume that is in use.
func (f *Fake) SnapshotVolume(_ context.Context, cluster, worker string, r wire.VolumeRef,
	_ apiv1.VolumeSnapshotRequest) error {
	return f.run("snapshot-volume", func() error {
		return f.used(cluster, worker, r)
	})
}

// RestoreVolume does, too.
func (f *Fake) RestoreVolume(_ context.Context, cluster, worker string, r wire.VolumeRef,
	_ apiv1.VolumeSnapshotRequest) error {
	return f.run("restore-volume", func() error {
		return f.used(cluster, worker, r)
	})
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
func (f *Fake) Snapshots(context.Context) ([]apiv1.SnapshotView, error) {
	return all(f, "snapshots", &f.SnapshotList)
}
