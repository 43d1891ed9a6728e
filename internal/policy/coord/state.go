package coord

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	// coordinate: the arithmetic of Vivaldi with height that Serf and Consul run in
	// production. Its Client is not used: its state cannot be written down, and it
	// draws from the global random source.
	"github.com/hashicorp/serf/coordinate"
)

// Dimensions of the Euclidean part of a Point.
const Dimensions = 8

// What is a sample: less is a clock that stood still, more says nothing about the
// distance.
const (
	MinRTT = 10 * time.Microsecond
	MaxRTT = 10 * time.Second
)

const (
	worstError = 1.5 // of a Point that knows nothing
	farthest   = 100 // s: where no Point is

	// settledError is that of a Point which knows better than one wild sample.
	settledError = 0.5
	window       = 20 // samples of the adjustment
)

// space has the step sizes that Serf uses.
var space = coordinate.DefaultConfig()

// Point is a place in the space, in seconds. Nodes tell each other theirs.
type Point struct {
	Vec [Dimensions]float64 `json:"vec"`
	// Height is what every path from here has in common: the access link.
	Height float64 `json:"height"`
	// Adjustment is the mean error of what the space says about paths from here.
	Adjustment float64 `json:"adjustment,omitempty"`
	// Error of its distances on average, relative to them: 0 to 1.5.
	Error float64 `json:"error"`
}

// Valid says whether p can be a Point at all. What comes from others must be asked.
func (p Point) Valid() bool {
	for _, x := range append(p.Vec[:], p.Adjustment) {
		if !(math.Abs(x) <= farthest) {
			return false
		}
	}
	return p.Height >= 0 && p.Height <= farthest && p.Error >= 0 && p.Error <= worstError
}

// Distance is the round trip between two valid points, at least MinRTT.
func (p Point) Distance(o Point) time.Duration {
	return max(p.serf().DistanceTo(o.serf()), MinRTT)
}

// raw is the distance without the adjustments.
func (p Point) raw(o Point) float64 {
	p.Adjustment, o.Adjustment = 0, 0
	return p.serf().DistanceTo(o.serf()).Seconds()
}

func (p Point) serf() *coordinate.Coordinate {
	return &coordinate.Coordinate{Vec: p.Vec[:], Error: p.Error, Adjustment: p.Adjustment, Height: p.Height}
}

// State is a node's place in the space and what moves it. It is a value, and what
// is kept over restarts.
type State struct {
	Point Point `json:"point"`
	// Samples are the last errors of the space, for the adjustment; the next one
	// replaces that at Next.
	Samples [window]float64 `json:"samples"`
	Next    int             `json:"next"`
	// Drift is how far the last steps went, relative to the distances measured, on
	// average: 1 at first.
	Drift float64 `json:"drift"`
}

// NewState is a node that knows nothing. The seed puts it next to the origin, each
// node elsewhere: from one and the same place there is no direction away.
func NewState(seed uint64) State {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := State{Point: Point{Error: worstError, Height: space.HeightMin}, Drift: 1}
	for i := range s.Point.Vec {
		s.Point.Vec[i] = (rng.Float64() - 0.5) * 1e-3
	}
	return s
}

// Restored is a state that was written down; one that cannot be is begun anew.
func Restored(s State, seed uint64) State {
	ok := s.Point.Valid() && s.Next >= 0 && s.Next < window && s.Drift >= 0 && s.Drift <= 1
	for _, x := range s.Samples {
		ok = ok && math.Abs(x) <= farthest
	}
	if !ok {
		return NewState(seed)
	}
	return s
}

var errSample = errors.New("not a sample")

// Step is the state after a round trip to a node at o was measured. An error means
// that the sample is impossible, and the state the old one.
func (s State) Step(o Point, rtt time.Duration) (State, error) {
	if !o.Valid() {
		return s, fmt.Errorf("coordinate of the other side: %w", errSample)
	}
	if rtt < MinRTT || rtt > MaxRTT {
		return s, fmt.Errorf("round trip of %v: %w", rtt, errSample)
	}
	measured := rtt.Seconds()
	p := s.Point
	estimate := p.Distance(o).Seconds()
	wrong := min(math.Abs(estimate-measured)/measured, 10) // one wild sample is not all that is known
	weight := p.Error / max(p.Error+o.Error, 1e-6)
	p.Error = min(space.VivaldiCE*weight*wrong+p.Error*(1-space.VivaldiCE*weight), worstError)
	off := measured - estimate
	if s.Point.Error < settledError {
		off = min(off, estimate) // far too long is rather a detour than a distance
	}
	moved := p.pushed(space.VivaldiCC*weight*off, o)
	s.Samples[s.Next] = min(max(estimate+off-moved.raw(o), -farthest), farthest)
	s.Next = (s.Next + 1) % window
	moved.Adjustment = 0
	for _, x := range s.Samples {
		moved.Adjustment += x / (2 * window)
	}
	// Towards the origin, so that all together do not drift away.
	origin := Point{Height: space.HeightMin}
	far := moved.Distance(origin).Seconds() / space.GravityRho
	moved = moved.pushed(-far*far, origin)
	if !moved.Valid() {
		return s, fmt.Errorf("it leads out of the space: %w", errSample)
	}
	s.Drift += 0.1 * (min(math.Abs(estimate-measured)*space.VivaldiCC*weight/measured, 1) - s.Drift)
	s.Point = moved
	return s, nil
}

// pushed is p after a force away from o (or towards it, below 0).
func (p Point) pushed(force float64, o Point) Point {
	c := p.serf().ApplyForce(space, force, o.serf())
	copy(p.Vec[:], c.Vec)
	p.Height = c.Height
	return p
}
