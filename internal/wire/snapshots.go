package wire

import (
	"fmt"
	"strings"
	"time"
)

// Objects whose names begin with one of these hold what is in volumes.
const (
	// VolumesPrefix begins those by which volumes move.
	VolumesPrefix = "volumes/"
	// SnapshotsPrefix begins those of snapshots.
	SnapshotsPrefix = "snapshots/"
)

// OfVolumes says whether an object holds what is in a volume: instances and workers do
// not get it as they do others.
func OfVolumes(object string) bool {
	return strings.HasPrefix(object, VolumesPrefix) || strings.HasPrefix(object, SnapshotsPrefix)
}

// Snapshot is what is stored about a snapshot of a named volume beside the object that
// it is in. It is written when all of the object is there.
type Snapshot struct {
	V         int        `json:"v"`
	Namespace string     `json:"namespace"`
	Object    string     `json:"object"`
	Instance  InstanceID `json:"instance"`
	// Volume by its name, and the Worker that it was on.
	Volume string `json:"volume"`
	Worker string `json:"worker,omitempty"`
	// Digest of the object as it was packed (SHA-256, hexadecimal), its Size in bytes, and
	// how many Files are in it.
	Digest string    `json:"digest"`
	Size   int64     `json:"size"`
	Files  int       `json:"files"`
	Taken  time.Time `json:"taken"`
	By     string    `json:"by,omitempty"`
}

// Key is the namespace and the object, as in the store and for people.
func (s *Snapshot) Key() string { return s.Namespace + "/" + s.Object }

// What a snapshot can be like now.
const (
	SnapshotWhole   = "whole"   // the object is what was packed
	SnapshotChanged = "changed" // it is something else
	SnapshotLost    = "lost"    // there is none
)

// SnapshotView is a snapshot, and what has become of its object.
type SnapshotView struct {
	Snapshot
	Cluster string `json:"cluster,omitempty"`
	State   string `json:"state" enum:"whole,changed,lost"`
}

// StateOf says what has become of a snapshot; digest is that of its object, "" if there
// is none.
func (s *Snapshot) StateOf(digest string) string {
	switch digest {
	case "":
		return SnapshotLost
	case s.Digest:
		return SnapshotWhole
	}
	return SnapshotChanged
}

// Check says whether an object with this digest is what was packed.
func (s *Snapshot) Check(digest string) error {
	if s.StateOf(digest) == SnapshotWhole {
		return nil
	}
	return Problemf(409, "snapshot-changed", "restore another one: verge volume snapshot ls", "the snapshot is not what it was",
		"%s of namespace %s was taken at %s with the digest sha256:%.12s…, and has sha256:%.12s… now", s.Object, s.Namespace, s.Taken.UTC().Format(time.RFC3339), s.Digest, digest)
}

// SnapshotName is what the object of a snapshot is called by default.
func SnapshotName(instance InstanceID, volume string, at time.Time) string {
	return fmt.Sprintf("%s%s/%s/%s", SnapshotsPrefix, instance, volume, at.UTC().Format("20060102T150405Z"))
}
