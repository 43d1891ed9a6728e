package wire

import (
	"cmp"
	"time"

	"github.com/verge-edge/verge/api"
)

// NamespaceOf is the namespace of an application, also of a record that is older
// than namespaces.
func NamespaceOf(spec *api.Application) string { return cmp.Or(spec.Namespace, api.DefaultNamespace) }

// Quota bounds what the applications of a namespace ask for together. Zero is no
// bound.
type Quota struct {
	CPU          api.CPU   `json:"cpu,omitempty"`
	Memory       api.Bytes `json:"memory,omitempty"`
	Disk         api.Bytes `json:"disk,omitempty"`
	Instances    int       `json:"instances,omitempty" minimum:"0" maximum:"1000000"`
	Applications int       `json:"applications,omitempty" minimum:"0" maximum:"1000000"`
}

// Namespace is the stored form of a namespace: who applications and secrets
// belong to. DefaultNamespace exists without a record.
type Namespace struct {
	V       int       `json:"v"`
	Name    string    `json:"name"`
	Quota   Quota     `json:"quota,omitzero"`
	Created time.Time `json:"created"`
	By      string    `json:"by,omitempty"` // who created it
}

// NamespaceRequest asks for a namespace.
type NamespaceRequest struct {
	Name  string `json:"name" minLength:"1" maxLength:"63"`
	Quota Quota  `json:"quota,omitzero"`
}

// NamespaceView is a namespace and what it uses.
type NamespaceView struct {
	Name    string    `json:"name"`
	Quota   Quota     `json:"quota"`
	Used    Quota     `json:"used"`
	Created time.Time `json:"created,omitzero"`
	By      string    `json:"by,omitempty"`
}
