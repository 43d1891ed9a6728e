package root

import (
	"context"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Volumes implements rest.Backend: the worker's cluster asks it.
func (b backend) Volumes(ctx context.Context, cluster, worker string) ([]wire.VolumeView, error) {
	const title = "its volumes cannot be listed now"
	if err := b.details(cluster, title); err != nil {
		return nil, err
	}
	list := []wire.VolumeView{}
	err := b.ask(ctx, cluster, wire.Ask{What: wire.AskVolumes, Worker: worker}, &list)
	for i := range list {
		list[i].Cluster, list[i].Worker = cluster, worker // whatever it says
	}
	return list, unanswered(err, cluster, "worker-unavailable", title)
}

// RemoveVolume implements rest.Backend. What is stored at a site is the site's.
func (b backend) RemoveVolume(_ context.Context, cluster, _ string, _ wire.VolumeRef) error {
	return rest.ElsewhereAt("removing a volume", cluster)
}

// MoveVolumes implements rest.Backend, as RemoveVolume does.
func (b backend) MoveVolumes(_ context.Context, cluster, _ string, _ wire.VolumeRef, _ wire.VolumeMoveRequest) error {
	return rest.ElsewhereAt("moving a volume", cluster)
}

// ForgetVolumes implements rest.Backend.
func (b backend) ForgetVolumes(_ context.Context, cluster, _ string, _ wire.VolumeRef, _ wire.VolumeForgetRequest) error {
	return rest.ElsewhereAt("giving a volume up", cluster)
}

// CancelVolumes implements rest.Backend.
func (b backend) CancelVolumes(_ context.Context, cluster, _ string, _ wire.VolumeRef) error {
	return rest.ElsewhereAt("moving a volume", cluster)
}

// SnapshotVolume implements rest.Backend.
func (b backend) SnapshotVolume(_ context.Context, cluster, _ string, _ wire.VolumeRef, _ wire.VolumeSnapshotRequest) error {
	return rest.ElsewhereAt("making a snapshot of a volume", cluster)
}

// RestoreVolume implements rest.Backend.
func (b backend) RestoreVolume(_ context.Context, cluster, _ string, _ wire.VolumeRef, _ wire.VolumeSnapshotRequest) error {
	return rest.ElsewhereAt("restoring a volume", cluster)
}

// Snapshots implements rest.Backend.
func (b backend) Snapshots(context.Context) ([]wire.SnapshotView, error) {
	return nil, rest.Elsewhere("listing snapshots of volumes", "the cluster that has taken them")
}
