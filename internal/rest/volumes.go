package rest

import (
	"context"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Volumes is the part of a backend that is about what instances have stored.
type Volumes interface {
	// Volumes are the named volumes of a worker.
	Volumes(ctx context.Context, cluster, worker string) ([]rpc.VolumeView, error)
}

// VolumeChanges is the part of a backend that removes, moves and keeps what instances have
// stored.
type VolumeChanges interface {
	// RemoveVolume removes one with all that is in it; one that is used is an error.
	RemoveVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef) error
	// MoveVolumes begins to move the volumes of the instance that has this one to another
	// worker of the cluster; CancelVolumes lets it go on where it was.
	MoveVolumes(ctx context.Context, cluster, worker string, r wire.VolumeRef, q apiv1.VolumeMoveRequest) error
	CancelVolumes(ctx context.Context, cluster, worker string, r wire.VolumeRef) error
	// ForgetVolumes lets the instance that has this one begin elsewhere with empty ones,
	// while its worker is away.
	ForgetVolumes(ctx context.Context, cluster, worker string, r wire.VolumeRef, q apiv1.VolumeForgetRequest) error
	// SnapshotVolume puts what is in a volume into an object, RestoreVolume makes it what
	// was in one. Its instance is stopped meanwhile; CancelVolumes counts for them, too.
	SnapshotVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef, q apiv1.VolumeSnapshotRequest) error
	RestoreVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef, q apiv1.VolumeSnapshotRequest) error
	// Snapshots are those that this cluster has taken, by volume and time. They are removed
	// with their objects.
	Snapshots(ctx context.Context) ([]apiv1.SnapshotView, error)
}

// VolumeIn is where a volume is in the paths of this interface.
type VolumeIn struct {
	Cluster   string `path:"cluster" maxLength:"63" doc:"name of the cluster"`
	Worker    string `path:"worker" maxLength:"63" doc:"name of the worker"`
	Namespace string `path:"namespace" maxLength:"63" doc:"namespace of the application"`
	Instance  string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
	Name      string `path:"name" maxLength:"63" doc:"name of the volume"`
}

// VolumeAt is the input of a volume.
func VolumeAt(cluster, worker string, r wire.VolumeRef) VolumeIn {
	return VolumeIn{Cluster: cluster, Worker: worker, Namespace: r.Namespace, Instance: r.Instance, Name: r.Name}
}

func (in *VolumeIn) ref() wire.VolumeRef {
	return wire.VolumeRef{Namespace: in.Namespace, Instance: in.Instance, Name: in.Name}
}

// Subject implements Subjecter.
func (in *VolumeIn) Subject() (on, detail string) {
	return "worker/" + in.Cluster + "/" + in.Worker, "volume " + in.ref().String()
}

// What the other operations take.
type (
	// VolumeMoveIn is what MoveVolume takes.
	VolumeMoveIn struct {
		VolumeIn
		Body apiv1.VolumeMoveRequest
	}
	// VolumeForgetIn is what ForgetVolume takes.
	VolumeForgetIn struct {
		VolumeIn
		Body apiv1.VolumeForgetRequest
	}
	// VolumeObjectIn is what SnapshotVolume and RestoreVolume take.
	VolumeObjectIn struct {
		VolumeIn
		Body apiv1.VolumeSnapshotRequest
	}
)

// Subject implements Subjecter.
func (in *VolumeMoveIn) Subject() (on, detail string) {
	on, detail = in.VolumeIn.Subject()
	return on, detail + " to worker " + in.Body.To
}

// Subject implements Subjecter.
func (in *VolumeForgetIn) Subject() (on, detail string) {
	on, detail = in.VolumeIn.Subject()
	return on, detail + ", for good"
}

// Subject implements Subjecter.
func (in *VolumeObjectIn) Subject() (on, detail string) {
	on, detail = in.VolumeIn.Subject()
	return on, detail + ", object " + in.Body.Object
}

const volumePath = " /v1/workers/{cluster}/{worker}/volumes/{namespace}/{id}/{name}"

// Operations on volumes.
var (
	ListVolumes = define("list-volumes", "GET /v1/workers/{cluster}/{worker}/volumes", "The named volumes of a worker",
		may(access.See, worker("cluster", "worker")),
		func(ctx context.Context, b Volumes, in *WorkerIn) (Items[rpc.VolumeView], error) {
			return list(b.Volumes(ctx, in.Cluster, in.Worker))
		})

	DeleteVolume = define("delete-volume", "DELETE"+volumePath, "Remove a named volume that nothing uses, with all that is in it",
		may(access.Operate, worker("cluster", "worker")),
		func(ctx context.Context, b VolumeChanges, in *VolumeIn) (None, error) {
			return None{}, b.RemoveVolume(ctx, in.Cluster, in.Worker, in.ref())
		})
	MoveVolume = define("move-volume", "POST"+volumePath+"/move",
		"Move the named volumes of an instance to another worker of its cluster; it is stopped meanwhile",
		may(access.Operate, worker("cluster", "worker")),
		func(ctx context.Context, b VolumeChanges, in *VolumeMoveIn) (None, error) {
			return None{}, b.MoveVolumes(ctx, in.Cluster, in.Worker, in.ref(), in.Body)
		})
	CancelVolumeMove = define("cancel-volume-move", "DELETE"+volumePath+"/move",
		"Let an instance whose volumes are being moved continue where it was", may(access.Operate, worker("cluster", "worker")),
		func(ctx context.Context, b VolumeChanges, in *VolumeIn) (None, error) {
			return None{}, b.CancelVolumes(ctx, in.Cluster, in.Worker, in.ref())
		})
	ForgetVolume = define("forget-volume", "POST"+volumePath+"/forget",
		"Let an instance whose worker is away begin elsewhere, with empty volumes", may(access.Operate, worker("cluster", "worker")),
		func(ctx context.Context, b VolumeChanges, in *VolumeForgetIn) (None, error) {
			return None{}, b.ForgetVolumes(ctx, in.Cluster, in.Worker, in.ref(), in.Body)
		})
	SnapshotVolume = define("snapshot-volume", "POST"+volumePath+"/snapshot",
		"Put what is in a named volume into an object of the cluster; its instance is stopped meanwhile",
		may(access.Operate, worker("cluster", "worker")),
		func(ctx context.Context, b VolumeChanges, in *VolumeObjectIn) (None, error) {
			return None{}, b.SnapshotVolume(ctx, in.Cluster, in.Worker, in.ref(), in.Body)
		})
	RestoreVolume = define("restore-volume", "POST"+volumePath+"/restore",
		"Make a named volume what is in an object of the cluster; its instance is stopped meanwhile",
		may(access.Operate, worker("cluster", "worker")),
		func(ctx context.Context, b VolumeChanges, in *VolumeObjectIn) (None, error) {
			return None{}, b.RestoreVolume(ctx, in.Cluster, in.Worker, in.ref(), in.Body)
		})
	ListSnapshots = define("list-snapshots", "GET /v1/snapshots", "The snapshots of volumes that this cluster has taken",
		each(func(v apiv1.SnapshotView) access.Object { return ofNamespaceNamed(v.Namespace) }),
		func(ctx context.Context, b VolumeChanges, _ *None) (Items[apiv1.SnapshotView], error) {
			return list(b.Snapshots(ctx))
		})
)
