package wire

import (
	"math"
	"time"
)

// CoordinateDimensions is the number of dimensions of a Coordinate's Euclidean part.
const CoordinateDimensions = 8

// UnknownError is the Error of an unknown Coordinate.
const UnknownError = 1.5

// Coordinate is a worker's place in the space whose distances are round trips in seconds
// (Vivaldi). Package coord computes it.
type Coordinate struct {
	Vec [CoordinateDimensions]float64 `json:"vec"`
	// Height is what every path from there has in common: the access link.
	Height float64 `json:"height"`
	// Adjustment is the mean error of the distances of paths from there.
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
	if !(s < math.MaxInt32) { // NaN or impossible: far
		return math.MaxInt64
	}
	return max(time.Duration(s*1e9), 10*time.Microsecond)
}

// Valid says whether c can be a coordinate: all parts are numbers, none beyond 100 s.
func (c *Coordinate) Valid() bool {
	const farthest = 100
	for i := range c.Vec {
		if !(math.Abs(c.Vec[i]) <= farthest) {
			return false
		}
	}
	return math.Abs(c.Adjustment) <= farthest && c.Height >= 0 && c.Height <= farthest && c.Error >= 0 && c.Error <= UnknownError
}
