package rpc

import "github.com/verge-edge/verge/internal/wire"

// CordonRequest asks for a Cordon.
type CordonRequest struct {
	Reason string `json:"reason,omitempty" maxLength:"200" doc:"why, for those who come across it"`
	Drain  bool   `json:"drain,omitempty" doc:"move what runs there away"`
}

// DrainView is the progress of a drain.
type DrainView struct {
	// Cordon with Drain; nil: nobody drains it.
	Cordon *wire.Cordon `json:"cordon,omitempty"`
	// Left are the instances still there, by id.
	Left []DrainItem `json:"left"`
	// Source is who says so. AgeSeconds is the age of the oldest report used; negative if there
	// was none.
	Source     string  `json:"source"`
	AgeSeconds float64 `json:"age_seconds"`
}

// DrainItem is an instance that has not left yet.
type DrainItem struct {
	Instance wire.InstanceID `json:"instance"`
	// State: "moving" (another starts elsewhere), "ending" (another has taken over),
	// "waiting" (for its turn), "stays" (it cannot go anywhere now).
	State string `json:"state" enum:"moving,ending,waiting,stays"`
	To    string `json:"to,omitempty"` // worker or cluster that it moves to
	Why   string `json:"why,omitempty"`
}
