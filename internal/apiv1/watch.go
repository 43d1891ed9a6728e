package apiv1

import "encoding/json"

// Kinds of what a watch tells.
const (
	// WatchBegin comes first. Full: everything follows, and what was known before
	// does not count any more; otherwise it goes on where the last watch ended.
	WatchBegin = "begin"
	// WatchPut and WatchGone are about one object: how it is now, or how it was
	// last before it went.
	WatchPut  = "put"
	WatchGone = "gone"
	// WatchSynced: everything there is has been told; now come changes.
	WatchSynced = "synced"
	// WatchLost is made by the client: the connection is lost and tried again.
	WatchLost = "lost"
)

// WatchEvent is one thing that a watch tells.
type WatchEvent struct {
	Type string `json:"-"`
	Full bool   `json:"full,omitempty"`
	// Kind of the object as in the question ("instances"), Key its name among
	// those, Object its view.
	Kind   string          `json:"kind,omitempty"`
	Key    string          `json:"key,omitempty"`
	Object json.RawMessage `json:"object,omitempty"`
	// Why the connection was lost.
	Why string `json:"-"`
}
