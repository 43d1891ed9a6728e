package coord

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	// coordinate: the arithmetic of Vivaldi with height that Serf and Consul run in production. Its
	// Client is not used: its state cannot be serialized, and it uses the global random source.
	"github.com/hashicorp/serf/coordinate"
)

// Dimensions of the Euclidean part of a Point.
const Dimensions = 8

// The range of a sample: less means a clock that stood still, more says nothing about distance.
const (
	MinRTT = 10 * time.Microsecond
	MaxRTT = 10 * time.Second
)

const (
	worstError = 1.5 // of a new Point
	farthest   = 100 // s: beyond every Point

	// settledError is that of a Point that outweighs one wild sample.
	settledError = 0.5
	window       = 20 // samples of the adjustment
)

// space has the step sizes that Serf uses.
var space = coordinate.DefaultConfig()

// Point is a position in the space, in seconds. Nodes exchange theirs.
type Point struct {
	Vec [Dimensions]float64 `json:"vec"`
	// Height is the part that all paths from here share: the access link.
	Height float64 `json:"height"`
	// Adjustment is the mean error of the space for paths from here.
	Adjustment float64 `json:"adjustment,omitempty"`
	// Error is the mean relative error of its distances: 0 to 1.5.
	Error float64 `json:"error"`
}

// Valid says whether p is possible. Check each Point that comes from a peer.
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

// Short is p in a form that is short in JSON: the vector, the height and the adjustment in µs,
// and the error in thousandths.
func (p Point) Short() []int32 {
	out := make([]int32, 0, Dimensions+3)
	for _, x := range append(p.Vec[:], p.Height, p.Adjustment) {
		out = append(out, int32(math.Round(x*1e6)))
	}
	return append(out, int32(math.Round(p.Error*1e3)))
}

// FromShort is the Point of its short form; false if it is none.
func FromShort(short []int32) (p Point, ok bool) {
	if len(short) != Dimensions+3 {
		return p, false
	}
	for i := range p.Vec {
		p.Vec[i] = float64(short[i]) / 1e6
	}
	p.Height, p.Adjustment = float64(short[Dimensions])/1e6, float64(short[Dimensions+1])/1e6
	p.Error = float64(short[Dimensions+2]) / 1e3
	return p, p.Valid()
}

// Moved is how far p is from where it was before, in seconds: by so much its distances may
// have changed.
func (p Point) Moved(before Point) float64 {
	sum := 0.0
	for i := range p.Vec {
		sum += (p.Vec[i] - before.Vec[i]) * (p.Vec[i] - before.Vec[i])
	}
	return math.Sqrt(sum) + math.Abs(p.Height+p.Adjustment-before.Height-before.Adjustment)
}

// raw is the distance without the adjustments.
func (p Point) raw(o Point) float64 {
	p.Adjustment, o.Adjustment = 0, 0
	return p.serf().DistanceTo(o.serf()).Seconds()
}

func (p Point) serf() *coordinate.Coordinate {
	return &coordinate.Coordinate{Vec: p.Vec[:], Error: p.Error, Adjustment: p.Adjustment, Height: p.Height}
}

// State is a node's position in the space and what moves it. It is a value, and survives restarts.
type State struct {
	Point Point `json:"point"`
	// Samples are the last errors of the space, for the adjustment; Next is the index of the next
	// one.
	Samples [window]float64 `json:"samples"`
	Next    int             `json:"next"`
	// Drift is the mean length of the last steps, relative to the measured distances: 1 at first.
	Drift float64 `json:"drift"`
}

// NewState is the state of a new node. The seed places each node elsewhere near the origin: nodes
// at the same point have no direction apart.
func NewState(seed uint64) State {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := State{Point: Point{Error: worstError, Height: space.HeightMin}, Drift: 1}
	for i := range s.Point.Vec {
		s.Point.Vec[i] = (rng.Float64() - 0.5) * 1e-3
	}
	return s
}

// Restored validates a stored state; an impossible one is replaced by a new one.
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

// Step returns the state after a round trip to a node at o was measured. On an impossible sample it
// returns an error and the old state.
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
	wrong := min(math.Abs(estimate-measured)/measured, 10) // one wild sample must not outweigh all others
	weight := p.Error / max(p.Error+o.Error, 1e-6)
	p.Error = min(space.VivaldiCE*weight*wrong+p.Error*(1-space.VivaldiCE*weight), worstError)
	off := measured - estimate
	if s.Point.Error < settledError {
		off = min(off, estimate) // far too long is a detour rather than a distance
	}
	moved := p.pushed(space.VivaldiCC*weight*off, o)
	s.Samples[s.Next] = min(max(estimate+off-moved.raw(o), -farthest), farthest)
	s.Next = (s.Next + 1) % window
	moved.Adjustment = 0
	for _, x := range s.Samples {
		moved.Adjustment += x / (2 * window)
	}
	// Towards the origin, so that the space as a whole does not drift away.
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

// pushed is p after a force away from o (towards it if negative).
func (p Point) pushed(force float64, o Point) Point {
	c := p.serf().ApplyForce(space, force, o.serf())
	copy(p.Vec[:], c.Vec)
	p.Height = c.Height
	return p
}
