package wire

import "time"

// What a restored tier asks those below it, and what people are told of it.

// AskHoldings is the question of a restored root to its clusters: what they hold
// of what it, or the one that it is a copy of, has delegated to them.
const AskHoldings = "holdings"

// Holdings is one page of the answer to AskHoldings.
type Holdings struct {
	V int `json:"v"`
	// Have is the revision that the cluster holds: pages of another one are not of
	// this answer.
	Have   Rev     `json:"have,omitzero"`
	Shares []Share `json:"shares,omitempty"`
	// Lease is what the cluster has of the service network; on the first page.
	Lease *ClusterLease `json:"lease,omitempty"`
	// More: the next page follows the last share of this one.
	More bool `json:"more,omitempty"`
}

// Recovered notes that an application, or a part of it, was not in the backup that
// a root was restored from: clusters had it. Its descriptor is made of what they
// had, and has no comments any more.
type Recovered struct {
	From []string  `json:"from"`
	At   time.Time `json:"at"`
	// Services are those that clusters told of, with the revision of each.
	Services map[string]uint64 `json:"services,omitempty"`
}

// RecoveryView says how far a restored root or cluster is.
type RecoveryView struct {
	// Restored is zero where nothing was restored, or the recovery has ended.
	Restored time.Time `json:"restored,omitzero"`
	// Made is when the backup was made.
	Made time.Time `json:"made,omitzero"`
	// Dropped are the keys of records that were dropped since they could not be read; where
	// there are some nothing was restored.
	Dropped []string `json:"dropped,omitempty"`
	// Holding: nothing is decided yet, until those that are waited for have been
	// asked or given up.
	Holding bool           `json:"holding,omitempty"`
	Peers   []RecoveryPeer `json:"peers"`
	// Applications that were recovered, by name.
	Applications map[string]Recovered `json:"applications,omitempty"`
}

// RecoveryPeer is one of those that a restored tier asks.
type RecoveryPeer struct {
	Name string `json:"name"`
	// Asked is when it had said what it holds; zero: it has not yet.
	Asked time.Time `json:"asked,omitzero"`
	// Problem says why it could not be asked.
	Problem string `json:"problem,omitempty"`
}
