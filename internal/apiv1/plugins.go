package apiv1

import "time"

// PluginView is a scheduler plugin as its cluster knows it.
type PluginView struct {
	Name    string `json:"name"`
	Cluster string `json:"cluster"`
	// Registered: the cluster asks it. Not so, only keys have joined as it.
	Registered bool `json:"registered"`
	// Address where it is asked, without anything that is not to be shown; "nats:" on
	// the bus.
	Address string `json:"address,omitempty"`
	// Joint: it decides for all services that wait at once.
	Joint bool `json:"joint,omitempty"`
	// Default: what names no scheduler is placed by it.
	Default bool `json:"default,omitempty"`
	// Open is how many questions it has not answered yet.
	Open int `json:"open"`
	// Calls since the cluster orchestrator started, by what became of them ("answered",
	// "late", …), without those that never happened. Spared are the instances that rom
	// placed while it rested.
	Calls  map[string]uint64 `json:"calls,omitempty"`
	Spared uint64            `json:"spared,omitempty"`
	// Last is the last question that has ended, Failure the last that failed.
	Last    *PluginCall `json:"last,omitempty"`
	Failure *PluginCall `json:"failure,omitempty"`
	// Failed counts the questions in a row that failed. Resting: for that it is not
	// asked before Until, and then with one question at a time.
	Failed  int       `json:"failed,omitempty"`
	Resting bool      `json:"resting,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	// Services is how many are placed by it.
	Services int `json:"services"`
	// Identities that have joined as it (plugins on the bus).
	Identities []PluginIdentity `json:"identities,omitempty"`
}

// PluginCall is a question to a plugin, and how it ended.
type PluginCall struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	// Result is "answered", or the class of what was wrong; Problem says that in words.
	Result  string `json:"result"`
	Problem string `json:"problem,omitempty"`
	// What was asked about.
	Services   int `json:"services"`
	Instances  int `json:"instances"`
	Candidates int `json:"candidates"`
}

// PluginIdentity is a key that has joined as a plugin.
type PluginIdentity struct {
	// ID begins the hash of the key.
	ID      string    `json:"id"`
	Joined  time.Time `json:"joined"`
	Expires time.Time `json:"expires"`
}
