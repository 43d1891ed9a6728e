package wire

import (
	"cmp"
	"reflect"

	"github.com/verge-edge/verge/api"
)

// NamespaceOf returns the namespace of an application, even of a record older than namespaces.
func NamespaceOf(spec *api.Application) string { return cmp.Or(spec.Namespace, api.DefaultNamespace) }

// Quota bounds what the applications of a namespace request together. Zero is no bound.
type Quota struct {
	CPU    api.CPU   `json:"cpu,omitempty"`
	Memory api.Bytes `json:"memory,omitempty"`
	Disk   api.Bytes `json:"disk,omitempty"`
	VGPUs  api.Units `json:"vgpus,omitempty"`
	VTPUs  api.Units `json:"vtpus,omitempty"`
	// Bandwidth that is reserved, in and out.
	BandwidthIn  api.Bitrate `json:"bandwidth_in,omitempty"`
	BandwidthOut api.Bitrate `json:"bandwidth_out,omitempty"`
	// Objects is the size of those that the root stores.
	Objects      api.Bytes `json:"objects,omitempty"`
	Instances    int       `json:"instances,omitempty" minimum:"0" maximum:"1000000"`
	Applications int       `json:"applications,omitempty" minimum:"0" maximum:"1000000"`
	// Devices counts whole devices of types that are no separate resource, such as "camera".
	Devices map[string]int `json:"devices,omitempty" maxProperties:"64"`
}

const (
	// MaxQuotaDevices is how many types of devices a quota may name.
	MaxQuotaDevices = 64
	// MaxQuotaCount is the largest bound of anything counted.
	MaxQuotaCount = 1_000_000
)

// IsZero says whether nothing is bounded, or used.
func (q Quota) IsZero() bool {
	for _, n := range q.Devices {
		if n != 0 {
			return false
		}
	}
	q.Devices = nil
	return reflect.ValueOf(q).IsZero()
}

// Standing is what a namespace may claim when there is not room for all, and what its instances
// may do.
type Standing struct {
	// Weight of its share where services contend (drf): twice the weight gets twice as much. 0
	// is 1.
	Weight int `json:"weight,omitempty" minimum:"0" maximum:"1000"`
	// MaxPriority is the highest priority of its services, and the limit up to which priority
	// counts against other namespaces. 0: any, and it counts only within the namespace.
	MaxPriority int `json:"max_priority,omitempty" minimum:"0" maximum:"1000"`
	// Allow is what its instances may ask for, joined by "+" (see ParseAllow). "": a
	// writable root of a container, and nothing else.
	Allow string `json:"allow,omitempty" maxLength:"1000"`
	// Hosts that its services may publish at the gateways, joined by "+" (see ParseHosts).
	// Hosts named here are reserved for the namespace. "": any that nobody else has, except
	// localhost.
	Hosts string `json:"hosts,omitempty" maxLength:"4000"`
	// Ports of the gateways that its services may publish, joined by "+" (see ParsePorts),
	// likewise. "": any that nobody else has.
	Ports string `json:"ports,omitempty" maxLength:"1000"`
}

// MaxWeight of a namespace.
const MaxWeight = 1000

// Roles of a user: see package access for what they allow.
type Roles struct {
	Admin bool `json:"admin,omitempty"`
	// Monitor may read figures, and nothing else.
	Monitor bool `json:"monitor,omitempty"`
	// Namespaces and Clusters map the name of a namespace to "developer" or "viewer", of a
	// cluster to "operator".
	Namespaces map[string]string `json:"namespaces,omitempty"`
	Clusters   map[string]string `json:"clusters,omitempty"`
}
