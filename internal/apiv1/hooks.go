package apiv1

import (
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// HookRequest makes or changes a hook.
type HookRequest struct {
	wire.HookSpec
	// Secret signs from now on: whsec_ and 24 to 64 bytes in base64. "" leaves what is
	// there; a new hook needs one.
	Secret string `json:"secret,omitempty"`
	// OverlapSeconds is for how long the one before signs too; 0 is HookOverlap, -1 not
	// at all.
	OverlapSeconds int `json:"overlap_seconds,omitempty"`
}

// HookMessage is what a hook is sent.
type HookMessage struct {
	Type      string        `json:"type"`
	Timestamp time.Time     `json:"timestamp"` // when it happened, by the clock of who says so
	Data      wire.HookData `json:"data"`
}

// HookAnswer is what a gate says.
type HookAnswer struct {
	// Allow must be there: an answer without it is none.
	Allow  *bool  `json:"allow"`
	Reason string `json:"reason,omitempty"`
}

// HookView is a hook as people see it. Its secrets are not in it.
type HookView struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	wire.HookSpec
	Created time.Time `json:"created"`
	By      string    `json:"by,omitempty" doc:"who made or changed it last"`
	// State in one word, and why in words.
	State string `json:"state" enum:"ready,waiting,failing,paused,broken" doc:"ready: all was delivered; waiting: about to be; failing: not accepted, tried again; paused: by somebody; broken: its secret cannot be read"`
	Why   string `json:"why,omitempty"`
	// SecretSet is when its secret was, Overlap until when the one before signs too.
	SecretSet time.Time `json:"secret_set,omitzero"`
	Overlap   time.Time `json:"overlap,omitzero"`
	// Waiting notices, and how old the oldest of them is.
	Waiting       int     `json:"waiting"`
	OldestSeconds float64 `json:"oldest_seconds,omitempty"`
	// Since the process started: Delivered notices, Failures to deliver one; and how often
	// it Allowed, Refused, or did not answer when it was asked (Silent).
	Delivered uint64 `json:"delivered"`
	Failures  uint64 `json:"failures"`
	Allowed   uint64 `json:"allowed,omitempty"`
	Refused   uint64 `json:"refused,omitempty"`
	Silent    uint64 `json:"silent,omitempty"`
	// Dropped were given up, since it was made.
	Dropped   uint64    `json:"dropped,omitempty"`
	DropWhy   string    `json:"drop_why,omitempty"`
	DroppedAt time.Time `json:"dropped_at,omitzero"`
	// Last is what came of the last attempt, and when; Next when it is tried again.
	Last   string    `json:"last,omitempty"`
	LastAt time.Time `json:"last_at,omitzero"`
	Next   time.Time `json:"next,omitzero"`
}

// HookTested is what came of a test.
type HookTested struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// What came of it, in words.
	What        string  `json:"what"`
	TookSeconds float64 `json:"took_seconds"`
}
