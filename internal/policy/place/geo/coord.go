package geo

import (
	"math"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// CleanCoord returns a copy, nil if c is invalid or carries no information.
func CleanCoord(c *wire.Coordinate) *wire.Coordinate {
	if c == nil || !c.Valid() || c.Error >= wire.UnknownError {
		return nil
	}
	q := *c
	return &q
}

// Around returns the ball around the coordinates of workers, nil without any.
func Around(coords []*wire.Coordinate) *wire.Around {
	if len(coords) == 0 {
		return nil
	}
	var c wire.Coordinate
	n := float64(len(coords))
	for _, w := range coords {
		for i, x := range w.Vec {
			c.Vec[i] += x / n
		}
		c.Height += w.Height / n
		c.Adjustment += w.Adjustment / n
		c.Error += w.Error / n
	}
	round := func(x float64, part float64) float64 { return math.Round(x*part)/part + 0 }
	for i := range c.Vec {
		c.Vec[i] = round(c.Vec[i], 1000)
	}
	c.Height, c.Adjustment, c.Error = round(c.Height, 1000), round(c.Adjustment, 1000), round(c.Error, 10)
	radius := 0.0
	for _, w := range coords {
		sum := 0.0
		for i, x := range w.Vec {
			sum += (x - c.Vec[i]) * (x - c.Vec[i])
		}
		radius = max(radius, math.Sqrt(sum))
	}
	return &wire.Around{Center: c, Radius: api.Duration(math.Ceil(radius*1000) * 1e6), Workers: len(coords)}
}

// Apart returns the distance of two coordinates in seconds, without heights and
// adjustments, which all paths from them share.
func Apart(a, b *wire.Coordinate) float64 {
	sum := 0.0
	for i := range a.Vec {
		sum += (a.Vec[i] - b.Vec[i]) * (a.Vec[i] - b.Vec[i])
	}
	return math.Sqrt(sum)
}
