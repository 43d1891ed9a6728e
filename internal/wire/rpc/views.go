package rpc

import (
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// WorkerView is a worker as its cluster knows it.
type WorkerView struct {
	wire.WorkerInfo
	Cluster    string        `json:"cluster"`
	Status     string        `json:"status" enum:"ready,suspect,never-seen"`
	AgeSeconds float64       `json:"age_seconds"`
	Used       api.Resources `json:"used"`
	Instances  int           `json:"instances"`
	// ClockSkewSeconds is how far its clock is ahead of its cluster's, negative if behind; left
	// out up to MaxSkew, or if not known.
	ClockSkewSeconds float64      `json:"clock_skew_seconds,omitempty"`
	Cordon           *wire.Cordon `json:"cordon,omitempty"`
	// GatewayGrant is set if the worker may be a gateway with TLS.
	GatewayGrant *wire.GatewayGrant `json:"gateway_grant,omitempty"`
	// Revoked is when its key was revoked; it has to join again.
	Revoked time.Time `json:"revoked,omitzero"`
}

// EntryView is the address of a service's port on a worker. It stays the same while the worker
// lives, whichever instance answers.
type EntryView struct {
	App     string `json:"app"`
	Service string `json:"service"`
	Port    string `json:"port"` // its name
	Addr    string `json:"addr"` // host:port, on the worker's own machine only
	// Problem says why nothing listens at Addr at the moment; "" if it does.
	Problem string `json:"problem,omitempty"`
}

// Explained is one decision record (package policy/place) of one tier.
type Explained struct {
	Tier     string    `json:"tier"`
	At       time.Time `json:"at"`
	Decision any       `json:"decision"`
}

// JoinRequest is sent with a join token by a node that has no identity yet.
type JoinRequest struct {
	V     int    `json:"v"`
	Token string `json:"token" maxLength:"4096"`
	Name  string `json:"name" maxLength:"63"`
	// PublicKey is PKIX DER of the node's own key; it never leaves the node.
	PublicKey []byte `json:"public_key"`
	// NatsKey is the node's public user key for the bus.
	NatsKey string   `json:"nats_key" maxLength:"100"`
	Areas   []string `json:"areas,omitempty" maxItems:"64"`
	Version string   `json:"version,omitempty" maxLength:"100"`
}

// JoinReply is a node's identity. Nothing in it is secret.
type JoinReply struct {
	V int `json:"v"`
	// Chain is the PEM certificate chain of the node, CA the PEM of the root's certificate
	// authority. Without a chain the node retains its own, see RenewRequest.Holds.
	Chain string `json:"chain"`
	CA    string `json:"ca"`
	// Away is the chain of another certificate for the same key, with an opaque name: a worker
	// shows it to nodes outside its cluster. "" from tiers that make none.
	Away string `json:"away,omitempty"`
	// BusJWT is the node's credential for the bus (used with its own key), Link
	// the addresses (host:port) to connect to, LinkName their TLS server name.
	BusJWT   string   `json:"bus_jwt"`
	Link     []string `json:"link"`
	LinkName string   `json:"link_name"`
	Cluster  string   `json:"cluster"`
	Root     string   `json:"root"` // id of the root
	// API are the addresses (host:port) of the HTTP interface, where a node that can no longer
	// use the link renews.
	API []string `json:"api,omitempty"`
}
