package wire

import "time"

// Revocation is a key that is no longer valid, whatever certificate it has.
type Revocation struct {
	V int `json:"v"`
	// Until is when every certificate for the key has expired.
	Until time.Time `json:"until"`
	// Cluster that revoked it; "" is the root.
	Cluster string `json:"cluster,omitempty"`
}
