package client

import (
	"context"

	"github.com/verge-edge/verge/internal/rest"
)

// Volumes are what instances have stored on their workers.
type Volumes struct{ group }

// List is the named volumes of a worker.
func (v Volumes) List(ctx context.Context, cluster, worker string) ([]Volume, error) {
	return callList(ctx, v.group, rest.ListVolumes, rest.WorkerIn{Cluster: cluster, Worker: worker})
}

// Remove removes one that nothing uses, with all that is in it.
func (v Volumes) Remove(ctx context.Context, cluster, worker string, r VolumeRef) error {
	return callNone(ctx, v.group, rest.DeleteVolume, rest.VolumeAt(cluster, worker, r))
}

// Move begins to move the volumes of the instance that has this one to another worker of its
// cluster. The instance is stopped meanwhile.
func (v Volumes) Move(ctx context.Context, cluster, worker string, r VolumeRef, q VolumeMoveRequest) error {
	return callNone(ctx, v.group, rest.MoveVolume, rest.VolumeMoveIn{VolumeIn: rest.VolumeAt(cluster, worker, r), Body: q})
}

// Cancel ends a Move, Snapshot or Restore: the instance goes on where it was.
func (v Volumes) Cancel(ctx context.Context, cluster, worker string, r VolumeRef) error {
	return callNone(ctx, v.group, rest.CancelVolumeMove, rest.VolumeAt(cluster, worker, r))
}

// Forget lets the instance that has this one begin elsewhere with empty ones, while its worker
// is away.
func (v Volumes) Forget(ctx context.Context, cluster, worker string, r VolumeRef, q VolumeForgetRequest) error {
	return callNone(ctx, v.group, rest.ForgetVolume, rest.VolumeForgetIn{VolumeIn: rest.VolumeAt(cluster, worker, r), Body: q})
}

// Snapshot begins to put what is in a volume into an object. The instance is stopped meanwhile.
func (v Volumes) Snapshot(ctx context.Context, cluster, worker string, r VolumeRef, q VolumeSnapshotRequest) error {
	return callNone(ctx, v.group, rest.SnapshotVolume, rest.VolumeObjectIn{VolumeIn: rest.VolumeAt(cluster, worker, r), Body: q})
}

// Restore begins to make a volume what is in an object. The instance is stopped meanwhile.
func (v Volumes) Restore(ctx context.Context, cluster, worker string, r VolumeRef, q VolumeSnapshotRequest) error {
	return callNone(ctx, v.group, rest.RestoreVolume, rest.VolumeObjectIn{VolumeIn: rest.VolumeAt(cluster, worker, r), Body: q})
}

// Snapshots are those that a cluster has taken, by volume and time.
func (v Volumes) Snapshots(ctx context.Context) ([]Snapshot, error) {
	return callList(ctx, v.group, rest.ListSnapshots, rest.None{})
}

// Objects are what is stored in a tier by name, in namespaces.
type Objects struct{ group }

// Get asks for an object; its Body is to be closed. have is a digest (SHA-256, hexadecimal) of
// which the content is not needed, "" for none.
func (o Objects) Get(ctx context.Context, namespace, name, have string) (ObjectContent, error) {
	return o.conn.GetObject(ctx, namespace, name, have)
}

// Put stores an object.
func (o Objects) Put(ctx context.Context, in ObjectUpload) (Object, error) {
	return o.conn.PutObject(ctx, in)
}

// Remove removes an object, and returns what it was.
func (o Objects) Remove(ctx context.Context, namespace, name string) (Object, error) {
	return o.conn.RemoveObject(ctx, namespace, name)
}

// List is the objects of a namespace, of all that may be read where it is "".
func (o Objects) List(ctx context.Context, namespace string) ([]Object, error) {
	return callList(ctx, o.group, rest.ListObjects, rest.OfNamespaceIn{Namespace: namespace})
}
