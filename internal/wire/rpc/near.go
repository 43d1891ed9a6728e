package rpc

import (
	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// AskMeasure asks a worker for its distance to others; Measured answers it.
const AskMeasure = "measure"

// Bounds of a MeasureAsk.
const (
	MaxMeasurePeers   = 32
	MaxMeasureTargets = 8
)

// MeasureAsk is what AskMeasure asks about.
type MeasureAsk struct {
	// Peers are other workers that it measures now, and keeps measuring for a minute to improve
	// its own coordinate.
	Peers []MeasurePeer `json:"peers,omitempty"`
	// Targets are hosts other than workers: "host" or "host:port".
	Targets []string `json:"targets,omitempty"`
}

// MeasurePeer is a worker to measure.
type MeasurePeer struct {
	Cluster string `json:"cluster"`
	Worker  string `json:"worker"`
	// Address of its data port, host:port.
	Address string `json:"address"`
}

// Measured is what a worker found.
type Measured struct {
	V int `json:"v"`
	// Own is its own coordinate; the Error is UnknownError if it does not know.
	Own wire.Coordinate `json:"own"`
	// Peers and Targets in the order of the question.
	Peers   []MeasuredRTT `json:"peers,omitempty"`
	Targets []MeasuredRTT `json:"targets,omitempty"`
}

// MeasuredRTT is one round trip.
type MeasuredRTT struct {
	// RTT is 0 if nothing was measured, for the reason in Why.
	RTT api.Duration `json:"rtt,omitempty"`
	Why string       `json:"why,omitempty"`
	// By is the method: "icmp", or "tcp" and the port.
	By string `json:"by,omitempty"`
}
