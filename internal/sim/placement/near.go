package placement

import (
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/coord"
	"github.com/verge-edge/verge/internal/policy/coord/surveyed"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// locate sets, once, what a cluster of all workers would know after its survey: coordinates, one
// for each site, and round trips between some.
func (s *Scenario) locate() {
	if s.RTT == nil || s.located {
		return
	}
	s.located = true
	all := surveyed.New(s.Sites, func(i, j int) time.Duration {
		return max(coord.MinRTT, time.Duration(s.RTT(i, j)*float64(time.Millisecond)))
	}, 11)
	all.Survey(coord.Rounds)
	for _, t := range all.Tables {
		s.coords = append(s.coords, wire.Coordinate(t.Own.Point))
	}
	s.direct = make([]map[string]api.Duration, s.Sites)
	for i := range s.Workers {
		w := &s.Workers[i]
		for j, name := range all.Names {
			d := all.Tables[w.Site].Distance(name, all.Now)
			if !d.Measured {
				continue
			}
			if s.direct[j] == nil {
				s.direct[j] = map[string]api.Duration{}
			}
			s.direct[j][w.ID] = api.Duration(d.RTT)
		}
	}
	for i := range s.Workers {
		c := s.coords[s.Workers[i].Site]
		s.Workers[i].Coord = &c
	}
}

// near is what an instance must be near if the scheduler asks, without other clusters.
func (p *Pool) near(v *Service, by Scheduler) []place.Threshold {
	if !by.Near {
		return nil
	}
	return p.thresholds(v, nil)
}

// thresholds are a service's agreements, with the locations of the other services' instances. One
// without instances excludes no worker: the service placed second looks for the first. elsewhere
// returns the instances in other clusters; nil: there are none.
func (p *Pool) thresholds(v *Service, elsewhere func(to string) []place.Target) (out []place.Threshold) {
	for _, n := range v.Near {
		t := place.Threshold{To: n.To, Max: api.Duration(n.Within * float64(time.Millisecond))}
		for k, i := range p.on[n.To] {
			w := &p.views[i]
			target := place.Target{ID: fmt.Sprint(n.To, ".", k), Worker: w.ID, Coord: w.Coord}
			if p.scenario.direct != nil {
				target.Direct = p.scenario.direct[p.scenario.Workers[p.ids[i]].Site]
			}
			t.Targets = append(t.Targets, target)
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
