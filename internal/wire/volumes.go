package wire

import "time"

// What an order asks a worker to do with the named volumes of a stopped instance.
const (
	// VolumePack puts each into the object store of the cluster.
	VolumePack = "pack"
	// VolumeUnpack creates each from the object store, unless it exists.
	VolumeUnpack = "unpack"
	// VolumeRestore replaces each by the one in the object store.
	VolumeRestore = "restore"
	// VolumeHold does nothing: the instance stays stopped while another worker unpacks.
	VolumeHold = "hold"
)

// VolumeWork is what to do with the named volumes of an instance that an order stops.
type VolumeWork struct {
	// Key identifies this work.
	Key string `json:"key"`
	// Do is VolumePack, VolumeUnpack, VolumeRestore or VolumeHold.
	Do      string         `json:"do"`
	Volumes []VolumeObject `json:"volumes"`
}

// Same says whether two works, which may be nil, are the same.
func (w *VolumeWork) Same(o *VolumeWork) bool {
	return (w == nil) == (o == nil) && (w == nil || w.Key == o.Key && w.Do == o.Do)
}

// VolumeObject is a named volume, packed, in the object store of a cluster.
type VolumeObject struct {
	Name   string `json:"name"`
	Object string `json:"object"`
	// Digest of the object (SHA-256, hexadecimal), its Size in bytes, and the number of Files
	// in it; not known before it is packed.
	Digest string `json:"digest,omitempty"`
	Size   int64  `json:"size,omitempty"`
	Files  int    `json:"files,omitempty"`
	// Left counts sockets and pipes, which have no content and are left out; Examples are the
	// names of some of them.
	Left     int      `json:"left,omitempty"`
	Examples []string `json:"examples,omitempty"`
}

// VolumeReport is a worker's report on a VolumeWork.
type VolumeReport struct {
	Key  string `json:"key"`
	Do   string `json:"do"`
	Done bool   `json:"done,omitempty"`
	// Why it is not done yet, if something is in the way. It is tried again unless Final.
	Why   string `json:"why,omitempty"`
	Final bool   `json:"final,omitempty"`
	// Volumes as packed, once it is done.
	Volumes []VolumeObject `json:"volumes,omitempty"`
}

// About says whether a report, which may be nil, is on the given work.
func (r *VolumeReport) About(w *VolumeWork) bool {
	return r != nil && w != nil && r.Key == w.Key && r.Do == w.Do
}

// VolumeMove is a move of an instance's named volumes to another worker of its cluster, or a
// snapshot of one of them, or the restoration of one. The instance is stopped meanwhile.
type VolumeMove struct {
	From string `json:"from"`
	// To is "" if nothing goes to another worker.
	To    string    `json:"to,omitempty"`
	Since time.Time `json:"since"`
	By    string    `json:"by,omitempty"`
	// Work is what is done now: VolumePack or VolumeRestore by From, or VolumeUnpack by To.
	Work VolumeWork `json:"work"`
}

// VolumesEnded is how a VolumeMove ended.
type VolumesEnded struct {
	Key string `json:"key"` // of its work
	// Why it failed, in words; "" if it did not.
	Why string `json:"why,omitempty"`
}

// VolumeRef names a named volume of a worker.
type VolumeRef struct {
	Namespace string     `json:"namespace"`
	Instance  InstanceID `json:"instance"`
	Name      string     `json:"name"`
}

// String is "namespace/instance/name".
func (r VolumeRef) String() string { return r.Namespace + "/" + r.Instance + "/" + r.Name }
