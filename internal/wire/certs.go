package wire

import "time"

// How a node renews what it was certified with, and how keys stop to count.

// RenewRequest asks the tier above for a new certificate for the key that a node
// is registered with. Over the link the node's connection says who it is; over
// HTTP, where its certificate may have expired, a signature does.
type RenewRequest struct {
	V int `json:"v"`
	// Name of the worker or cluster.
	Name string `json:"name" maxLength:"63"`
	// PublicKey is PKIX DER of the registered key, NatsKey the registered public
	// user key for the bus.
	PublicKey []byte `json:"public_key"`
	NatsKey   string `json:"nats_key" maxLength:"100"`
	Version   string `json:"version,omitempty" maxLength:"100"`
	// Holds says what the node was certified with (enroll.HeldID), if it is not due
	// and all that is asked is whether the fault is ours: where it is what would be
	// given, the answer has no certificate.
	Holds string `json:"holds,omitempty" maxLength:"100"`
	// Challenge is what the server gave for this request, Signature is over it and
	// the rest (package pki), by the registered key. Both only over HTTP.
	Challenge string `json:"challenge,omitempty" maxLength:"200"`
	Signature []byte `json:"signature,omitempty"`
}

// LeaveRequest asks the tier above to take a worker out for good, at its own wish. It
// proves itself as for a renewal.
type LeaveRequest struct {
	RenewRequest
	// Force: also where something is placed there, which is placed elsewhere then.
	Force bool `json:"force,omitempty"`
}

// Challenge is to be signed by whoever wants to renew, or to leave, over HTTP, soon.
type Challenge struct {
	Challenge string `json:"challenge"`
}

// RenewReply answers a RenewRequest over the link: one of both is there.
type RenewReply struct {
	V       int        `json:"v"`
	Joined  *JoinReply `json:"j,omitempty"`
	Problem *Problem   `json:"p,omitempty"`
}

// Codes of the problems that end the trying of a node that wants to renew.
const (
	CodeRemoved = "node-removed"     // taken out: what it runs was placed elsewhere
	CodeRevoked = "node-revoked"     // its key does not count any more
	CodeUnknown = "node-unknown"     // never heard of it
	CodeTooLate = "renewal-too-late" // its certificate expired too long ago
)

// Revocation is a key that does not count any more, whatever certificate it has.
type Revocation struct {
	V int `json:"v"`
	// Until is when nothing certified for the key can be of use any more.
	Until time.Time `json:"until"`
	// Cluster that said so; "" is the root.
	Cluster string `json:"cluster,omitempty"`
}
