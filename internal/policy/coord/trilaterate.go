package coord

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// LeastSightings are needed to find a position: one more than the space has dimensions.
const LeastSightings = Dimensions + 1

// Sighting is a round trip measured from a known position.
type Sighting struct {
	From Point
	RTT  time.Duration
}

// Position is the estimated position of a host that reports none.
type Position struct {
	Point Point
	// Margin is the mean error of the round trips that follow from it, by leave-one-out
	// cross-validation.
	Margin time.Duration
}

// ErrFewSightings: there are too few measurements.
var ErrFewSightings = errors.New("too few measurements")

// Trilaterate finds the position that fits the measured round trips best, by non-linear least
// squares of the relative errors (Levenberg-Marquardt). Impossible sightings are ignored; their
// order does not matter.
func Trilaterate(all []Sighting, seed uint64) (Position, error) {
	var list []Sighting
	for _, s := range all {
		if s.From.Valid() && s.From.Error < worstError && s.RTT >= MinRTT && s.RTT <= MaxRTT {
			list = append(list, s)
		}
	}
	if len(list) < LeastSightings {
		return Position{}, fmt.Errorf("%w: %d, at least %d", ErrFewSightings, len(list), LeastSightings)
	}
	slices.SortFunc(list, func(a, b Sighting) int {
		if a.RTT != b.RTT {
			return int(min(max(a.RTT-b.RTT, -1), 1))
		}
		return slices.Compare(a.From.Vec[:], b.From.Vec[:])
	})
	at := fitFrom(list, seed)
	// A fit to few measurements fits them well and says little: each is predicted without itself.
	wrong, others := 0.0, make([]Sighting, 0, len(list))
	for i, s := range list {
		others = append(append(others[:0], list[:i]...), list[i+1:]...)
		wrong += math.Abs(fit(others, at).Distance(s.From).Seconds() - s.RTT.Seconds())
	}
	mean := wrong / float64(len(list))
	at.Error = min(cost(list, at)/float64(len(list)), worstError*0.99)
	if !at.Valid() {
		return Position{}, errors.New("the measurements contradict each other: no place is found")
	}
	return Position{Point: at, Margin: min(time.Duration(mean*1e9), MaxRTT)}, nil
}

// fitFrom fits from several starting points, and takes the best fit.
func fitFrom(list []Sighting, seed uint64) Point {
	rng := rand.New(rand.NewPCG(seed, 7))
	var best Point
	least := math.Inf(1)
	for start := range 4 {
		var p Point
		// The centre of the nearest ones, more of them each time.
		n := min(len(list), 1+start*LeastSightings/2)
		for _, s := range list[:n] {
			for i := range p.Vec {
				p.Vec[i] += s.From.Vec[i] / float64(n)
			}
		}
		for i := range p.Vec { // at the position of another there is no gradient
			p.Vec[i] += (rng.Float64() - 0.5) * 1e-3
		}
		p.Height = space.HeightMin
		p = fit(list, p)
		if c := cost(list, p); c < least {
			best, least = p, c
		}
	}
	return best
}

const unknowns = Dimensions + 1

// cost is the sum of the squared relative errors.
func cost(list []Sighting, p Point) (sum float64) {
	for i := range list {
		r, _ := residual(&list[i], &p)
		sum += r * r
	}
	return sum
}

// residual is the relative error of a sighting, and its gradient.
func residual(s *Sighting, p *Point) (r float64, grad [unknowns]float64) {
	measured := s.RTT.Seconds()
	weight := 1 / max(measured, 1e-3) // below a millisecond, measurements are noise
	sum := 0.0
	for i := range p.Vec {
		d := p.Vec[i] - s.From.Vec[i]
		sum += d * d
	}
	dist := max(math.Sqrt(sum), 1e-9)
	for i := range p.Vec {
		grad[i] = (p.Vec[i] - s.From.Vec[i]) / dist * weight
	}
	grad[Dimensions] = weight
	return (dist + p.Height + s.From.Height + s.From.Adjustment - measured) * weight, grad
}

// fit descends from a position until there is no more progress.
func fit(list []Sighting, p Point) Point {
	damping, now := 1e-2, cost(list, p)
	for range 60 {
		var normal [unknowns][unknowns]float64
		var slope [unknowns]float64
		for i := range list {
			r, g := residual(&list[i], &p)
			for a := range g {
				slope[a] -= g[a] * r
				for b := range g {
					normal[a][b] += g[a] * g[b]
				}
			}
		}
		improved := false
		for range 8 {
			m := normal
			for a := range m {
				m[a][a] += damping * (1 + m[a][a])
			}
			step, ok := solve(m, slope)
			next := p
			for i := range next.Vec {
				next.Vec[i] += step[i]
			}
			next.Height = max(0, next.Height+step[Dimensions])
			if c := cost(list, next); ok && c < now {
				improved = now-c > 1e-9*now
				p, now, damping = next, c, max(damping/4, 1e-9)
				break
			}
			damping *= 4
		}
		if !improved {
			break
		}
	}
	return p
}

// solve is Gaussian elimination with pivots; false without a unique solution.
func solve(m [unknowns][unknowns]float64, v [unknowns]float64) ([unknowns]float64, bool) {
	for c := range m {
		best := c
		for r := c + 1; r < unknowns; r++ {
			if math.Abs(m[r][c]) > math.Abs(m[best][c]) {
				best = r
			}
		}
		if !(math.Abs(m[best][c]) > 1e-300) {
			return v, false
		}
		m[c], m[best], v[c], v[best] = m[best], m[c], v[best], v[c]
		for r := c + 1; r < unknowns; r++ {
			f := m[r][c] / m[c][c]
			for k := c; k < unknowns; k++ {
				m[r][k] -= f * m[c][k]
			}
			v[r] -= f * v[c]
		}
	}
	for c := unknowns - 1; c >= 0; c-- {
		for k := c + 1; k < unknowns; k++ {
			v[c] -= m[c][k] * v[k]
		}
		v[c] /= m[c][c]
	}
	return v, true
}
