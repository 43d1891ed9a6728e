package apiv1

import (
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// RolloutView is how far an application is in being brought to its revision.
type RolloutView struct {
	Name     string           `json:"name"`
	Revision uint64           `json:"revision"`
	Services []ServiceRollout `json:"services"`
	// Source says so ("root", "cluster/edge").
	Source string `json:"source"`
}

// ServiceRollout is one service of a RolloutView.
type ServiceRollout struct {
	Name string `json:"name"`
	// Phase of all its clusters together: the worst of them.
	Phase string `json:"phase" enum:"rolling,waiting,paused,failed,done"`
	Why   string `json:"why,omitempty"`
	// Promised, Updated and Ready as in RolloutReport, of all clusters.
	Promised int `json:"promised"`
	Updated  int `json:"updated"`
	Ready    int `json:"ready"`
	// Hold is what people said about it; nil: nothing.
	Hold *wire.Hold `json:"hold,omitempty"`
	// Clusters that have a part in it.
	Clusters []wire.RolloutReport `json:"clusters"`
}

// RolloutRequest is what people say about a rollout.
type RolloutRequest struct {
	Service string `json:"service,omitempty" maxLength:"63" doc:"only this service"`
	Reason  string `json:"reason,omitempty" maxLength:"200" doc:"why, for those who come across it"`
	// To is the revision that an undo brings back.
	To uint64 `json:"to,omitempty" doc:"of an undo: the revision to bring back; the one before if it is left out"`
}

// AppRevision is what an application was.
type AppRevision struct {
	V        int    `json:"v,omitempty"`
	App      string `json:"app"`
	Revision uint64 `json:"revision"`
	// By whom it was applied, When, and Why: "undo to revision 3".
	By   string    `json:"by,omitempty"`
	When time.Time `json:"when"`
	Why  string    `json:"why,omitempty"`
	// Changed says in words what it changed: "web: image, env.A".
	Changed []string `json:"changed,omitempty"`
	// Held says of each service whether it held as this revision: ready as applied, and not
	// failing when the next revision came. Nil: nobody noted it.
	Held map[string]bool `json:"held,omitempty"`
	// Current: it is the one that counts.
	Current bool `json:"current,omitempty"`
	// Descriptor is its text; left out of lists.
	Descriptor string `json:"descriptor,omitempty"`
}

// HasHeld says whether the revision held, or one service of it. One of which nobody noted
// it may have.
func (r *AppRevision) HasHeld(service string) bool {
	if r.Held == nil || service != "" {
		return r.Held == nil || r.Held[service]
	}
	for _, held := range r.Held {
		if !held {
			return false
		}
	}
	return true
}

// WorstPhase is the one of two phases of which people must know first.
func WorstPhase(a, b string) string {
	for _, p := range []string{wire.RolloutFailed, wire.RolloutPaused, wire.RolloutRolling, wire.RolloutWaiting} {
		if a == p || b == p {
			return p
		}
	}
	return wire.RolloutDone
}
