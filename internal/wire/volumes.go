package wire

import (
	"fmt"
	"strings"
	"time"
)

// Questions of a cluster about the named volumes of a worker.
const (
	// AskVolumes asks for those of Worker.
	AskVolumes = "volumes"
	// AskRemoveVolume asks for the end of Volume, which nothing uses.
	AskRemoveVolume = "remove-volume"
)

// What an order asks for of the named volumes of an instance that is stopped.
const (
	// VolumePack puts each into the object store of the cluster.
	VolumePack = "pack"
	// VolumeUnpack makes each of what was put there, where it is not there yet.
	VolumeUnpack = "unpack"
	// VolumeRestore makes each of what was put there, in the place of what is there.
	VolumeRestore = "restore"
	// VolumeHold is nothing: the instance is stopped, and another worker unpacks.
	VolumeHold = "hold"
)

// VolumeWork is what is to be done with the named volumes of an instance that an order
// stops.
type VolumeWork struct {
	// Key names this work: another key is another work.
	Key string `json:"key"`
	// Do is VolumePack, VolumeUnpack, VolumeRestore or VolumeHold.
	Do      string         `json:"do"`
	Volumes []VolumeObject `json:"volumes"`
}

// Same says whether two works, which may be nil, are one.
func (w *VolumeWork) Same(o *VolumeWork) bool {
	return (w == nil) == (o == nil) && (w == nil || w.Key == o.Key && w.Do == o.Do)
}

// VolumeObject is a named volume, packed, in the object store of a cluster.
type VolumeObject struct {
	Name   string `json:"name"`
	Object string `json:"object"`
	// Digest of the object (SHA-256, hexadecimal) and its Size in bytes, Files how many
	// files are in it; not known before it was packed.
	Digest string `json:"digest,omitempty"`
	Size   int64  `json:"size,omitempty"`
	Files  int    `json:"files,omitempty"`
	// Left are sockets and pipes, which hold nothing and are not in it; Examples are the
	// names of some of them.
	Left     int      `json:"left,omitempty"`
	Examples []string `json:"examples,omitempty"`
}

// VolumeReport is what a worker says of a VolumeWork.
type VolumeReport struct {
	Key  string `json:"key"`
	Do   string `json:"do"`
	Done bool   `json:"done,omitempty"`
	// Why it is not done yet, where something is in the way. It is tried again, unless
	// that is Final.
	Why   string `json:"why,omitempty"`
	Final bool   `json:"final,omitempty"`
	// Volumes as they were packed, once it is done.
	Volumes []VolumeObject `json:"volumes,omitempty"`
}

// About says whether a report, which may be nil, is of a work.
func (r *VolumeReport) About(w *VolumeWork) bool {
	return r != nil && w != nil && r.Key == w.Key && r.Do == w.Do
}

// VolumeMove is a move of the named volumes of an instance to another worker of its
// cluster; or a snapshot of one of them, or its return to one. While there is one the
// instance is stopped.
type VolumeMove struct {
	From string `json:"from"`
	// To is "" where nothing goes to another worker.
	To    string    `json:"to,omitempty"`
	Since time.Time `json:"since"`
	By    string    `json:"by,omitempty"`
	// Work is what is done now: VolumePack or VolumeRestore by From, or VolumeUnpack by To.
	Work VolumeWork `json:"work"`
}

// VolumesEnded is how a VolumeMove ended.
type VolumesEnded struct {
	Key string `json:"key"` // of its work
	// Why it came to nothing, in words; "" if it did not.
	Why string `json:"why,omitempty"`
}

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

// VolumeRef names a named volume of a worker.
type VolumeRef struct {
	Namespace string     `json:"namespace"`
	Instance  InstanceID `json:"instance"`
	Name      string     `json:"name"`
}

// String is "namespace/instance/name".
func (r VolumeRef) String() string { return r.Namespace + "/" + r.Instance + "/" + r.Name }

// VolumeView is a named volume of a worker.
type VolumeView struct {
	VolumeRef
	Cluster string `json:"cluster,omitempty"`
	Worker  string `json:"worker,omitempty"`
	// InUse: an instance that is there, or is to be, names it.
	InUse bool `json:"in_use"`
	// Left says why what is in it does not count any more, "" if it does: the instance has
	// its volume elsewhere.
	Left string `json:"left,omitempty"`
	// Bytes that it takes on the disk; at least so many where Partial.
	Bytes   int64 `json:"bytes"`
	Partial bool  `json:"partial,omitempty"`
	// Changed is when something was made or removed at its top last.
	Changed time.Time `json:"changed"`
}

// ID is "cluster/worker/namespace/instance/name".
func (v VolumeView) ID() string { return v.Cluster + "/" + v.Worker + "/" + v.VolumeRef.String() }

// ParseVolumeID reads what ID wrote. The parts are checked by whoever uses them.
func ParseVolumeID(s string) (VolumeView, error) {
	p := strings.Split(s, "/")
	if len(p) != 5 {
		return VolumeView{}, fmt.Errorf("%.200q is not of the form CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME", s)
	}
	return VolumeView{Cluster: p[0], Worker: p[1], VolumeRef: VolumeRef{Namespace: p[2], Instance: p[3], Name: p[4]}}, nil
}
