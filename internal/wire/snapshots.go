package wire

import (
	"strings"
	"time"
)

// Prefixes of the names of objects that contain volumes.
const (
	// VolumesPrefix is that of volumes being moved.
	VolumesPrefix = "volumes/"
	// SnapshotsPrefix is that of snapshots.
	SnapshotsPrefix = "snapshots/"
)

// OfVolumes says whether an object contains a volume: instances and workers do not get it as
// they do others.
func OfVolumes(object string) bool {
	return strings.HasPrefix(object, VolumesPrefix) || strings.HasPrefix(object, SnapshotsPrefix)
}

// Snapshot is the record of a snapshot of a named volume, beside its object. It is written once
// the object is complete.
type Snapshot struct {
	V         int        `json:"v"`
	Namespace string     `json:"namespace"`
	Object    string     `json:"object"`
	Instance  InstanceID `json:"instance"`
	// Volume is its name, Worker where it was.
	Volume string `json:"volume"`
	Worker string `json:"worker,omitempty"`
	// Digest of the object when it was packed (SHA-256, hexadecimal), its Size in bytes, and
	// the number of Files in it.
	Digest string    `json:"digest"`
	Size   int64     `json:"size"`
	Files  int       `json:"files"`
	Taken  time.Time `json:"taken"`
	By     string    `json:"by,omitempty"`
}

// Key is the namespace and the object, as in the store and for people.
func (s *Snapshot) Key() string { return s.Namespace + "/" + s.Object }

// States of a snapshot.
const (
	SnapshotWhole   = "whole"   // the object is as it was packed
	SnapshotChanged = "changed" // it is something else
	SnapshotLost    = "lost"    // there is none
)

// StateOf returns the state of a snapshot; digest is that of its object, "" if there is none.
func (s *Snapshot) StateOf(digest string) string {
	switch digest {
	case "":
		return SnapshotLost
	case s.Digest:
		return SnapshotWhole
	}
	return SnapshotChanged
}

// Check returns an error unless an object with this digest is what was packed.
func (s *Snapshot) Check(digest string) error {
	if s.StateOf(digest) == SnapshotWhole {
		return nil
	}
	return Problemf(409, "snapshot-changed", "restore another one: verge volume snapshot ls", "the snapshot is not what it was",
		"%s of namespace %s was taken at %s with the digest sha256:%.12s…, and has sha256:%.12s… now", s.Object, s.Namespace, s.Taken.UTC().Format(time.RFC3339), s.Digest, digest)
}
