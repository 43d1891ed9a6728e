package rpc

import "github.com/verge-edge/verge/internal/wire"

// How a node renews its certificates, and how keys are revoked.

// RenewRequest asks the tier above for a new certificate for a node's registered key. Over the
// link the connection proves who the node is; over HTTP, where its certificate may have
// expired, a signature does.
type RenewRequest struct {
	V int `json:"v"`
	// Name of the worker or cluster.
	Name string `json:"name" maxLength:"63"`
	// PublicKey is PKIX DER of the registered key, NatsKey the registered public
	// user key for the bus.
	PublicKey []byte `json:"public_key"`
	NatsKey   string `json:"nats_key" maxLength:"100"`
	Version   string `json:"version,omitempty" maxLength:"100"`
	// Holds identifies the node's certificates (enroll.HeldID), if renewal is not due and the
	// node only asks whether they are at fault. If it would get the same again, the answer has
	// no certificate.
	Holds string `json:"holds,omitempty" maxLength:"100"`
	// Challenge is what the server gave for this request. Signature covers it and the rest
	// (package pki), by the registered key. Both only over HTTP.
	Challenge string `json:"challenge,omitempty" maxLength:"200"`
	Signature []byte `json:"signature,omitempty"`
}

// LeaveRequest asks the tier above to remove a worker for good, at the worker's own wish. It
// proves itself as for a renewal.
type LeaveRequest struct {
	RenewRequest
	// Force: even if something is placed there, which is then placed elsewhere.
	Force bool `json:"force,omitempty"`
}

// Challenge is to be signed, soon, by a node that wants to renew or leave over HTTP.
type Challenge struct {
	Challenge string `json:"challenge"`
}

// RenewReply answers a RenewRequest over the link: exactly one field is set.
type RenewReply struct {
	V       int           `json:"v"`
	Joined  *JoinReply    `json:"j,omitempty"`
	Problem *wire.Problem `json:"p,omitempty"`
}

// Codes of the problems after which a node stops trying to renew.
const (
	CodeRemoved = "node-removed"     // removed: what it runs was placed elsewhere
	CodeRevoked = "node-revoked"     // its key was revoked
	CodeUnknown = "node-unknown"     // never heard of it
	CodeTooLate = "renewal-too-late" // its certificate expired too long ago
)
