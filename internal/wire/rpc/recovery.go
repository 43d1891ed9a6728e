package rpc

import "github.com/verge-edge/verge/internal/wire"

// What a restored tier asks those below it.

// AskHoldings is what a restored root asks its clusters: what they have of what it, or the root
// that it is a copy of, delegated to them.
const AskHoldings = "holdings"

// Holdings is one page of the answer to AskHoldings.
type Holdings struct {
	V int `json:"v"`
	// Have is the revision that the cluster has: pages with another do not belong to this
	// answer.
	Have   wire.Rev     `json:"have,omitzero"`
	Shares []wire.Share `json:"shares,omitempty"`
	// Lease is the cluster's lease in the service network; on the first page.
	Lease *wire.ClusterLease `json:"lease,omitempty"`
	// More: the next page follows the last share of this one.
	More bool `json:"more,omitempty"`
}
