package rpc

import (
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Questions of a cluster about the named volumes of a worker.
const (
	// AskVolumes asks for those of Worker.
	AskVolumes = "volumes"
	// AskRemoveVolume asks to remove Volume, which nothing uses.
	AskRemoveVolume = "remove-volume"
)

// VolumeView is a named volume of a worker.
type VolumeView struct {
	wire.VolumeRef
	Cluster string `json:"cluster,omitempty"`
	Worker  string `json:"worker,omitempty"`
	// InUse: an instance that is or will be there names it.
	InUse bool `json:"in_use"`
	// Left says why its content is obsolete, "" if it is not: the instance has its volume
	// elsewhere.
	Left string `json:"left,omitempty"`
	// Bytes on disk; a lower bound if Partial.
	Bytes   int64 `json:"bytes"`
	Partial bool  `json:"partial,omitempty"`
	// Changed is when something was last created or removed at its top level.
	Changed time.Time `json:"changed"`
}

// ID is "cluster/worker/namespace/instance/name".
func (v VolumeView) ID() string { return v.Cluster + "/" + v.Worker + "/" + v.VolumeRef.String() }

// ParseVolumeID reads what ID wrote. Whoever uses the parts checks them.
func ParseVolumeID(s string) (VolumeView, error) {
	p := strings.Split(s, "/")
	if len(p) != 5 {
		return VolumeView{}, fmt.Errorf("%.200q is not of the form CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME", s)
	}
	return VolumeView{Cluster: p[0], Worker: p[1], VolumeRef: wire.VolumeRef{Namespace: p[2], Instance: p[3], Name: p[4]}}, nil
}
