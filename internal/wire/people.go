package wire

import (
	"cmp"
	"reflect"
	"time"

	"github.com/verge-edge/verge/api"
)

// NamespaceOf is the namespace of an application, also of a record that is older
// than namespaces.
func NamespaceOf(spec *api.Application) string { return cmp.Or(spec.Namespace, api.DefaultNamespace) }

// Quota bounds what the applications of a namespace ask for together. Zero is no
// bound.
type Quota struct {
	CPU    api.CPU   `json:"cpu,omitempty"`
	Memory api.Bytes `json:"memory,omitempty"`
	Disk   api.Bytes `json:"disk,omitempty"`
	VGPUs  api.Units `json:"vgpus,omitempty"`
	VTPUs  api.Units `json:"vtpus,omitempty"`
	// Bandwidth that is reserved, in and out.
	BandwidthIn  api.Bitrate `json:"bandwidth_in,omitempty"`
	BandwidthOut api.Bitrate `json:"bandwidth_out,omitempty"`
	// Objects are the bytes of those that the root keeps.
	Objects      api.Bytes `json:"objects,omitempty"`
	Instances    int       `json:"instances,omitempty" minimum:"0" maximum:"1000000"`
	Applications int       `json:"applications,omitempty" minimum:"0" maximum:"1000000"`
	// Devices are whole ones of a type that is no resource of its own, such as "camera".
	Devices map[string]int `json:"devices,omitempty" maxProperties:"64"`
}

const (
	// MaxQuotaDevices is how many types of devices a quota may name.
	MaxQuotaDevices = 64
	// MaxQuotaCount is the largest bound of what is counted.
	MaxQuotaCount = 1_000_000
)

// IsZero says that nothing is bounded, or used.
func (q Quota) IsZero() bool {
	for _, n := range q.Devices {
		if n != 0 {
			return false
		}
	}
	q.Devices = nil
	return reflect.ValueOf(q).IsZero()
}

// Standing is what a namespace may claim beside others where there is not room for all,
// and what its instances may do.
type Standing struct {
	// Weight of its share where services contend (drf): with twice the weight it is due
	// twice as much. 0 is 1.
	Weight int `json:"weight,omitempty" minimum:"0" maximum:"1000"`
	// MaxPriority is the highest priority that its services may have, and up to which it
	// counts against those of other namespaces. 0: they may have any, and it counts
	// within the namespace alone.
	MaxPriority int `json:"max_priority,omitempty" minimum:"0" maximum:"1000"`
	// Allow is what its instances may ask for, joined by "+" (see ParseAllow). "": a
	// writable root of a container, and nothing else.
	Allow string `json:"allow,omitempty" maxLength:"1000"`
	// Hosts that its services may publish at the gateways, joined by "+" (see ParseHosts). A
	// host that is named here is reserved for the namespace. "": any that nobody else has,
	// apart from localhost.
	Hosts string `json:"hosts,omitempty" maxLength:"4000"`
	// Ports of the gateways that its services may publish, joined by "+" (see ParsePorts),
	// likewise. "": any that nobody else has.
	Ports string `json:"ports,omitempty" maxLength:"1000"`
}

// MaxWeight of a namespace.
const MaxWeight = 1000

// Namespace is the stored form of a namespace: who applications and secrets
// belong to. DefaultNamespace exists without a record.
type Namespace struct {
	V        int       `json:"v"`
	Name     string    `json:"name"`
	Quota    Quota     `json:"quota,omitzero"`
	Standing Standing  `json:"standing,omitzero"`
	Created  time.Time `json:"created"`
	By       string    `json:"by,omitempty"` // who created it
}

// NamespaceRequest asks for a namespace.
type NamespaceRequest struct {
	Name     string   `json:"name" minLength:"1" maxLength:"63"`
	Quota    Quota    `json:"quota,omitzero"`
	Standing Standing `json:"standing,omitzero"`
}

// NamespaceView is a namespace and what it uses.
type NamespaceView struct {
	Name     string   `json:"name"`
	Quota    Quota    `json:"quota"`
	Standing Standing `json:"standing,omitzero"`
	Used     Quota    `json:"used"`
	// Unallowed says what its services publish and the standing does not allow: they had it
	// before, and keep it.
	Unallowed []string `json:"unallowed,omitempty"`
	// AtSites is the part of Used that sites have asked for by themselves, beyond what
	// the root gave them.
	AtSites Quota `json:"at_sites,omitzero"`
	// Shares are what runs of it is of each cluster that who asks may see, where one
	// namespace is asked for.
	Shares  []NamespaceShare `json:"shares,omitempty"`
	Created time.Time        `json:"created,omitzero"`
	By      string           `json:"by,omitempty"`
}

// NamespaceShare is the dominant share of a namespace in a cluster: the largest of its
// parts of what the ready workers have of a resource, by what is reserved.
type NamespaceShare struct {
	Cluster  string  `json:"cluster"`
	Share    float64 `json:"share"`
	Resource string  `json:"resource"` // "cpu", "memory", …
}

// Roles that a user has: see package access for what they allow.
type Roles struct {
	Admin bool `json:"admin,omitempty"`
	// Monitor may read figures, and nothing else.
	Monitor bool `json:"monitor,omitempty"`
	// Namespaces and Clusters say which role, by name of the namespace ("developer"
	// or "viewer") or cluster ("operator").
	Namespaces map[string]string `json:"namespaces,omitempty"`
	Clusters   map[string]string `json:"clusters,omitempty"`
}

// User is the stored form of a person, or of a program.
type User struct {
	V    int    `json:"v"`
	Name string `json:"name"`
	Roles
	Created time.Time `json:"created"`
	By      string    `json:"by,omitempty"` // who created it
	// Token is the one by which it is known; there is one at a time.
	Token UserToken `json:"token"`
}

// UserToken is what is kept of a user's token.
type UserToken struct {
	Hash    string    `json:"hash"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// UserRequest asks for a user.
type UserRequest struct {
	Name string `json:"name" minLength:"1" maxLength:"63"`
	Roles
	TTLSeconds int `json:"ttl_seconds,omitempty" minimum:"0" maximum:"31622400" doc:"of its token; 0: 90 days"`
}

// RotateRequest asks for a new token of a user.
type RotateRequest struct {
	TTLSeconds int `json:"ttl_seconds,omitempty" minimum:"0" maximum:"31622400" doc:"0: 90 days"`
}

// UserView is a user as others see it.
type UserView struct {
	Name string `json:"name"`
	Roles
	Created      time.Time `json:"created"`
	By           string    `json:"by,omitempty"`
	TokenCreated time.Time `json:"token_created"`
	TokenExpires time.Time `json:"token_expires"`
	// Problem is why only the name is known, and what to do; "" for nothing.
	Problem string `json:"problem,omitempty" doc:"why only its name is known: what is stored about it cannot be read, and it is not let in"`
}

// UserReply carries a user's new token; it is shown once and stored only as a
// hash.
type UserReply struct {
	User  UserView `json:"user"`
	Token string   `json:"token"`
}

// WhoView says who asks, as the server knows it.
type WhoView struct {
	Name string `json:"name"`
	Roles
}

// AuditEntry is something that somebody did, or was refused.
type AuditEntry struct {
	V    int       `json:"v,omitempty"` // 0 of entries older than that
	Seq  uint64    `json:"seq"`
	At   time.Time `json:"at"`
	Who  string    `json:"who,omitempty"`  // "admin/ann", "user/bob"; "" for nobody known
	From string    `json:"from,omitempty"` // address of the connection
	What string    `json:"what"`           // the operation: "delete-application"
	On   string    `json:"on,omitempty"`   // "application/shop"
	// Result is "ok", "begun" (recorded before it was done), or the code of the
	// problem that was answered.
	Result string `json:"result"`
	Detail string `json:"detail,omitempty"`
}

// AuditQuery asks for a part of the audit log.
type AuditQuery struct {
	Since time.Time
	User  string // name, with or without what it is of: "user/bob" or "bob"
	// Before is the sequence number that entries are to be below; 0: the newest.
	Before uint64
	Limit  int
}

// AuditPage are entries, oldest first. Before is what to ask for next to get what
// was before them, 0 if there is nothing more.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	Before  uint64       `json:"before,omitempty"`
}
