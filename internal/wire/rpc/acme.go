package rpc

import (
	"fmt"
	"time"
)

// ACMEPath is where the gateways of a cluster share their ACME data: accounts, challenges,
// certificates with their keys, and locks on them.
const ACMEPath = "/v1/gateway/acme"

// Operations of an ACMERequest.
const (
	ACMELoad   = "load"   // the value of Key
	ACMEStore  = "store"  // Values, all or none
	ACMEDelete = "delete" // Key and what is below it
	ACMEList   = "list"   // Key and what is below it, without values
	ACMELock   = "lock"   // the lock named Key for Owner, or its renewal
	ACMEUnlock = "unlock"
)

// Bounds of an ACMERequest.
const (
	MaxACMEKey    = 512      // bytes
	MaxACMEValue  = 32 << 10 // bytes; a chain has five thousand
	MaxACMEValues = 8
	// MaxACMEBody of a request, in JSON.
	MaxACMEBody = 512 << 10
)

// ACMERequest is what a gateway asks of its cluster. Keys are those of the ACME library, with a
// slash between their parts.
type ACMERequest struct {
	V      int               `json:"v"`
	Op     string            `json:"op"`
	Key    string            `json:"key,omitempty"`
	Values map[string][]byte `json:"values,omitempty"`
	// Absent: nothing is stored if one of Values already exists.
	Absent bool `json:"absent,omitempty"`
	// Owner distinguishes those who ask for a lock.
	Owner string `json:"owner,omitempty"`
}

// String is the request without its values, which may be private keys.
func (q ACMERequest) String() string {
	return fmt.Sprintf("%s %s (%d values)", q.Op, q.Key, len(q.Values))
}

// GoString is String.
func (q ACMERequest) GoString() string { return q.String() }

// ACMEReply answers it.
type ACMEReply struct {
	V int `json:"v"`
	// Found: there is a value; in reply to a store with Absent: nothing was stored.
	Found bool   `json:"found,omitempty"`
	Value []byte `json:"value,omitempty"`
	// Entries are those of a list, by key.
	Entries []ACMEEntry `json:"entries,omitempty"`
	// Held: the asker has the lock, for Lease from now on unless it asks again.
	Held  bool          `json:"held,omitempty"`
	Lease time.Duration `json:"lease,omitempty"`
}

// String is the reply without its value.
func (r ACMEReply) String() string {
	return fmt.Sprintf("found %v, %d bytes, %d entries, held %v", r.Found, len(r.Value), len(r.Entries), r.Held)
}

// GoString is String.
func (r ACMEReply) GoString() string { return r.String() }

// ACMEEntry describes a stored value.
type ACMEEntry struct {
	Key      string    `json:"key"`
	Modified time.Time `json:"modified"`
	Size     int       `json:"size"` // bytes
}
