package rpc

import "github.com/verge-edge/verge/internal/wire"

// GateQuestion is what a cluster asks the hooks of its root, GateReply their answer.
type GateQuestion struct {
	V    int           `json:"v"`
	Data wire.HookData `json:"d"`
}

// GateReply answers a GateQuestion.
type GateReply struct {
	V int `json:"v"`
	// Warnings are about optional hooks that did not answer.
	Warnings []string `json:"w,omitempty"`
	// Problem is the objection of a required hook; nil for none.
	Problem *wire.Problem `json:"p,omitempty"`
}
