package record

import (
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// HookSecret is one secret of a hook, sealed.
type HookSecret struct {
	ID     string    `json:"id"`
	Key    string    `json:"key"` // the id of the key that it is sealed for
	Sealed []byte    `json:"sealed"`
	Set    time.Time `json:"set"`
	// Until is when it ceases to sign, since there is a newer one; zero: it is the newest.
	Until time.Time `json:"until,omitzero"`
}

// Hook is the record of a hook.
type Hook struct {
	V int `json:"v"`
	// ID is this hook's and not that of another one which had its name.
	ID        string `json:"id"`
	Namespace string `json:"namespace,omitempty"` // "" for what belongs to none
	Name      string `json:"name"`
	wire.HookSpec
	// Secrets, the newest first; two at most.
	Secrets []HookSecret `json:"secrets"`
	Created time.Time    `json:"created"`
	// Since is when it was made, or last began to be told of more: nothing of what was
	// before is told.
	Since time.Time `json:"since"`
	By    string    `json:"by,omitempty"`
	// Paused: nothing is sent and it is asked nothing, By and since when.
	Paused   string    `json:"paused,omitempty"`
	PausedAt time.Time `json:"paused_at,omitzero"`
	// Dropped counts the notices that were given up, Why the last of them was, and when.
	Dropped   uint64    `json:"dropped,omitempty"`
	DropWhy   string    `json:"drop_why,omitempty"`
	DroppedAt time.Time `json:"dropped_at,omitzero"`
}

// HookItem is a notice that waits for one hook.
type HookItem struct {
	V    int    `json:"v"`
	ID   string `json:"id"` // by which its receiver knows it again
	Kind string `json:"kind"`
	// Queued is when it was stored, by the clock of who stored it.
	Queued time.Time `json:"queued"`
	// Body is what is sent, and signed: a HookMessage.
	Body string `json:"body"`
}

// HookMark is how far what happened to one subject has been told.
type HookMark struct {
	V  int    `json:"v"`
	At string `json:"at"`
	// Namespace of the subject; "" for one of none.
	Namespace string `json:"namespace,omitempty"`
}
