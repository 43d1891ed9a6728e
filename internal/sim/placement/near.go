package placement

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/coord"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// How coordinates are found: each site measures one of so many others at a time.
const (
	peers    = 32
	measured = 400
)

// locate gives the workers the coordinates that they would have after a while of
// measuring each other, once.
func (s *Scenario) locate() {
	if s.RTT == nil || s.located {
		return
	}
	s.located = true
	rng := rand.New(rand.NewPCG(11, 12))
	states, others := make([]coord.State, s.Sites), make([][]int, s.Sites)
	for i := range states {
		states[i] = coord.NewState(uint64(i))
		for range peers {
			others[i] = append(others[i], rng.IntN(s.Sites))
		}
	}
	for range measured {
		for i := range states {
			k := others[i][rng.IntN(peers)]
			if k == i {
				continue
			}
			rtt := max(coord.MinRTT, time.Duration(s.RTT(i, k)*float64(time.Millisecond)))
			// What is refused changes nothing, as it should.
			if next, err := states[i].Step(states[k].Point, rtt); err == nil {
				states[i] = next
			}
		}
	}
	for i := range states {
		p := states[i].Point
		s.coords = append(s.coords, wire.Coordinate{Vec: p.Vec, Height: p.Height, Adjustment: p.Adjustment, Error: p.Error})
	}
	for i := range s.Workers {
		c := s.coords[s.Workers[i].Site]
		s.Workers[i].Coord = &c
	}
}

// near is what an instance must be near with a scheduler that asks, where there are no
// other clusters.
func (p *Pool) near(v *Service, by Scheduler) []place.Threshold {
	if !by.Near {
		return nil
	}
	return p.thresholds(v, nil)
}

// thresholds are a service's agreements, with where the instances of the others are. One
// that has none yet removes nobody: whoever comes second looks for the first. What is in
// other clusters is elsewhere, nil: nothing is.
func (p *Pool) thresholds(v *Service, elsewhere func(to string) []place.Target) (out []place.Threshold) {
	for _, n := range v.Near {
		t := place.Threshold{To: n.To, Max: api.Duration(n.Within * float64(time.Millisecond))}
		for k, i := range p.on[n.To] {
			w := &p.views[i]
			t.Targets = append(t.Targets, place.Target{ID: fmt.Sprint(n.To, ".", k), Worker: w.ID, Coord: w.Coord})
		}
		if elsewhere != nil {
			t.Targets = append(t.Targets, elsewhere(n.To)...)
		}
		if len(t.Targets) == 0 {
			t.Free = "it has no instance yet"
		}
		out = append(out, t)
	}
	return out
}
