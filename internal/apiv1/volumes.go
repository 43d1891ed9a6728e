package apiv1

// VolumeMoveRequest asks for one.
type VolumeMoveRequest struct {
	To string `json:"to" maxLength:"63" doc:"name of a worker of the same cluster"`
}

// VolumeSnapshotRequest asks for a snapshot of a volume, or for its return to one.
type VolumeSnapshotRequest struct {
	Object string `json:"object" maxLength:"200" doc:"name of the object of the cluster's object store, in the namespace of the volume"`
	// Digest that the object must have; needed where it is not a snapshot that the
	// cluster knows.
	Digest string `json:"digest,omitempty" pattern:"^([0-9a-f]{64})?$" doc:"SHA-256 that the object must have, to restore from one that is not a snapshot that this cluster has taken"`
}
