package rpc

import "github.com/verge-edge/verge/internal/wire"

// AskUpgrade lets a worker upgrade, or go back. It may be repeated at will: the key names one
// try, and the answer is its progress.
const AskUpgrade = "upgrade"

// UpgradeAsk is what AskUpgrade is about.
type UpgradeAsk struct {
	Key string `json:"k"`
	// Program to run; nil if Undo is set.
	Program *wire.Program `json:"p,omitempty"`
	// Undo is the key of a try to reverse completely; "" for none.
	Undo string `json:"u,omitempty"`
	// Drain bounds how long open connections are kept, in nanoseconds.
	Drain int64 `json:"d,omitempty"`
}

// States of a try on a worker.
const (
	TryGoesOn  = "goes-on"
	TryDone    = "done"
	TryFailed  = "failed"  // it goes on as before
	TryRefused = "refused" // not permitted
)

// UpgradeTry is a worker's progress in a try.
type UpgradeTry struct {
	V     int    `json:"v"`
	Key   string `json:"k"`
	State string `json:"s"`
	Why   string `json:"w,omitempty"`
	// Again: a failed try may succeed later; the link was down, for example.
	Again bool `json:"g,omitempty"`
	// Agent and Engine are the versions of its two processes.
	Agent  string `json:"a,omitempty"`
	Engine string `json:"e,omitempty"`
}
