package wire

import (
	"math"
	"time"

	"github.com/verge-edge/verge/api"
)

// CoordinateDimensions are those of the Euclidean part of a Coordinate.
const CoordinateDimensions = 8

// UnknownError is the Error of a Coordinate that says nothing.
const UnknownError = 1.5

// Coordinate is where a worker is in the space in which distances are round trips
// (Vivaldi), in seconds. Package coord computes it.
type Coordinate struct {
	Vec [CoordinateDimensions]float64 `json:"vec"`
	// Height is what every path from there has in common: the access link.
	Height float64 `json:"height"`
	// Adjustment is the mean error of what the space says about paths from there.
	Adjustment float64 `json:"adjustment,omitempty"`
	// Error of its distances on average, relative to them: 0 to UnknownError.
	Error float64 `json:"error"`
}

// RTT is the round trip between two valid coordinates, at least 10 µs.
func (c *Coordinate) RTT(o *Coordinate) time.Duration {
	sum := 0.0
	for i := range c.Vec {
		d := c.Vec[i] - o.Vec[i]
		sum += d * d
	}
	s := math.Sqrt(sum) + c.Height + o.Height
	if adjusted := s + c.Adjustment + o.Adjustment; adjusted > 0 {
		s = adjusted
	}
	if !(s < math.MaxInt32) { // not a number: what cannot be is far
		return math.MaxInt64
	}
	return max(time.Duration(s*1e9), 10*time.Microsecond)
}

// Valid says whether c can be a coordinate at all: a number everywhere, and none
// beyond 100 s.
func (c *Coordinate) Valid() bool {
	const farthest = 100
	for i := range c.Vec {
		if !(math.Abs(c.Vec[i]) <= farthest) {
			return false
		}
	}
	return math.Abs(c.Adjustment) <= farthest && c.Height >= 0 && c.Height <= farthest && c.Error >= 0 && c.Error <= UnknownError
}

// AskMeasure asks a worker how far it is from others; it is answered by Measured.
const AskMeasure = "measure"

// Bounds of a MeasureAsk.
const (
	MaxMeasurePeers   = 32
	MaxMeasureTargets = 8
)

// MeasureAsk is what AskMeasure asks about.
type MeasureAsk struct {
	// Peers are other workers that it measures now, and goes on measuring for a minute
	// so that its own coordinate becomes better.
	Peers []MeasurePeer `json:"peers,omitempty"`
	// Targets are hosts that are no workers: "host" or "host:port".
	Targets []string `json:"targets,omitempty"`
}

// MeasurePeer is a worker that is measured.
type MeasurePeer struct {
	Cluster string `json:"cluster"`
	Worker  string `json:"worker"`
	// Address of its data port, host:port.
	Address string `json:"address"`
}

// Measured is what a worker found.
type Measured struct {
	V int `json:"v"`
	// Own is where it is itself; its Error is UnknownError where it does not know.
	Own Coordinate `json:"own"`
	// Peers and Targets as they were asked for, in that order.
	Peers   []MeasuredRTT `json:"peers,omitempty"`
	Targets []MeasuredRTT `json:"targets,omitempty"`
}

// MeasuredRTT is one round trip.
type MeasuredRTT struct {
	// RTT is 0 where nothing was measured, Why says why then.
	RTT api.Duration `json:"rtt,omitempty"`
	Why string       `json:"why,omitempty"`
	// By is how: "icmp", or "tcp" and the port.
	By string `json:"by,omitempty"`
}
