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
