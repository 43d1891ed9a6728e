package placement

import (
	"fmt"
	"math"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
)

// entries are the requests of a service by the site of its users, of all sites or of those that
// here accepts; nil without coordinates or requests.
func (s *Scenario) entries(v *Service, here func(site int) bool) (out []place.Entry) {
	if len(s.coords) == 0 || v.Rate <= 0 {
		return nil
	}
	at := map[int]int{} // index in out by site
	for _, u := range v.Users {
		if here != nil && !here(u) {
			continue
		}
		k, ok := at[u]
		if !ok {
			k = len(out)
			at[u] = k
			out = append(out, place.Entry{At: place.Target{ID: fmt.Sprint("site-", u), Coord: &s.coords[u]}})
		}
		out[k].Rate += v.Rate / float64(len(v.Users))
	}
	return out
}

// traffic is what a cluster knows of a service's requests that enter there.
func (p *Pool) traffic(v *Service) *place.Traffic {
	t := &place.Traffic{Points: p.scenario.entries(v, p.here), Replicas: map[string]int{}}
	work := v.Work
	if work == 0 {
		work = usualWork
	}
	if cores := cpuOf(v.Demand); cores > 0 {
		t.Exec, t.RPS = api.Duration(1e9*work/min(1, cores)), cores/work
	}
	for w, n := range p.has[v.Name] {
		t.Replicas[p.views[w].ID] = n
	}
	return t
}

// enter assigns the users at each site to the nearest cluster.
func (t *Tiers) enter() {
	s := t.scenario
	if s.RTT == nil {
		return
	}
	nearest := make([]int, s.Sites)
	for u := range nearest {
		least := math.Inf(1)
		for i, p := range t.Pools {
			for _, id := range p.ids {
				if d := s.RTT(u, s.Workers[id].Site); d < least {
					nearest[u], least = i, d
				}
			}
		}
	}
	for i, p := range t.Pools {
		p.here = func(site int) bool { return nearest[site] == i }
	}
}

// entering sets the rate of a service's requests that each cluster reports to the root.
func (t *Tiers) entering(v *Service) {
	for i, p := range t.Pools {
		t.views[i].Entering = 0
		for _, e := range t.scenario.entries(v, p.here) {
			t.views[i].Entering += e.Rate
		}
	}
}
