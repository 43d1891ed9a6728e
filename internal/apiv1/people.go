package apiv1

import (
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// NamespaceRequest asks for a namespace.
type NamespaceRequest struct {
	Name     string        `json:"name" minLength:"1" maxLength:"63"`
	Quota    wire.Quota    `json:"quota,omitzero"`
	Standing wire.Standing `json:"standing,omitzero"`
}

// NamespaceView is a namespace and what it uses.
type NamespaceView struct {
	Name     string        `json:"name"`
	Quota    wire.Quota    `json:"quota"`
	Standing wire.Standing `json:"standing,omitzero"`
	Used     wire.Quota    `json:"used"`
	// Unallowed says what its services publish and the standing does not allow: they had it
	// before, and keep it.
	Unallowed []string `json:"unallowed,omitempty"`
	// AtSites is the part of Used that sites have asked for by themselves, beyond what
	// the root gave them.
	AtSites wire.Quota `json:"at_sites,omitzero"`
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

// UserRequest asks for a user.
type UserRequest struct {
	Name string `json:"name" minLength:"1" maxLength:"63"`
	wire.Roles
	TTLSeconds int `json:"ttl_seconds,omitempty" minimum:"0" maximum:"31622400" doc:"of its token; 0: 90 days"`
}

// RotateRequest asks for a new token of a user.
type RotateRequest struct {
	TTLSeconds int `json:"ttl_seconds,omitempty" minimum:"0" maximum:"31622400" doc:"0: 90 days"`
}

// UserView is a user as others see it.
type UserView struct {
	Name string `json:"name"`
	wire.Roles
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
	wire.Roles
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
