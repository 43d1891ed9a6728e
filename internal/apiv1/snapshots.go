package apiv1

import "github.com/verge-edge/verge/internal/wire"

// SnapshotView is a snapshot, and what has become of its object.
type SnapshotView struct {
	wire.Snapshot
	Cluster string `json:"cluster,omitempty"`
	State   string `json:"state" enum:"whole,changed,lost"`
}
