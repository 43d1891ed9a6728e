package apiv1

import (
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// RecoveryView says how far a root or cluster is that was restored, or whose data
// directory is an older copy of itself.
type RecoveryView struct {
	// Restored is zero where nothing was restored, or the recovery has ended. Of an older
	// copy it is when that began to differ from what others have seen.
	Restored time.Time `json:"restored,omitzero"`
	// Made is when the backup was made; of an older copy the same as Restored.
	Made time.Time `json:"made,omitzero"`
	// Ahead is who has seen a later state than the data directory has, which is an older
	// copy of itself then.
	Ahead string `json:"ahead,omitempty"`
	// Twin is when somebody was last found to have been told by another process that
	// works on a copy of the data directory.
	Twin time.Time `json:"twin,omitzero"`
	// Dropped are the keys of records that were dropped since they could not be read; where
	// there are some nothing was restored.
	Dropped []string `json:"dropped,omitempty"`
	// Holding: nothing is decided yet, until those that are waited for have been
	// asked or given up.
	Holding bool           `json:"holding,omitempty"`
	Peers   []RecoveryPeer `json:"peers"`
	// Applications that were recovered, by name.
	Applications map[string]wire.Recovered `json:"applications,omitempty"`
}

// Why says in words what led to the recovery.
func (v RecoveryView) Why() string {
	switch {
	case len(v.Dropped) > 0:
		return "records were dropped (" + strings.Join(v.Dropped, ", ") + ")"
	case !v.Twin.IsZero():
		return "another process works on a copy of this data directory (" + v.Ahead + " had been told by it): stop one of the two"
	case v.Ahead != "":
		return "the data directory is an older copy of itself (" + v.Ahead + " has seen a later state)"
	}
	return "restored from a backup of " + v.Made.UTC().Format(time.RFC3339)
}

// RecoveryPeer is one of those that a restored tier asks.
type RecoveryPeer struct {
	Name string `json:"name"`
	// Asked is when it had said what it holds; zero: it has not yet.
	Asked time.Time `json:"asked,omitzero"`
	// Problem says why it could not be asked.
	Problem string `json:"problem,omitempty"`
}
