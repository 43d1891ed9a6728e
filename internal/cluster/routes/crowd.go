package routes

import (
	"strings"

	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/coord"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/wire"
)

// A router measures coord.PerService workers of a service. Where a service has more, routers
// are told where they are (Endpoint.At), so that they measure those that should be near. For
// this the workers that serve and use it measure each other (package proximity).

// crowded says whether a route goes by distance and has more workers of this cluster than a
// router measures.
func crowded(cluster string, r *wire.Route) bool {
	if len(r.Endpoints) <= coord.PerService || !route.ByDistance(r.PolicyOf()) {
		return false
	}
	workers := map[string]bool{}
	for i := range r.Endpoints {
		if e := &r.Endpoints[i]; e.Cluster == cluster {
			if workers[e.Worker] = true; len(workers) > coord.PerService {
				return true
			}
		}
	}
	return false
}

// tellPlaces says where the workers of a crowded route are.
func tellPlaces(t *state.Tx, r *wire.Route) {
	if !crowded(t.Model.Name, r) {
		return
	}
	before := map[string][]int32{} // what routers were told by an earlier process counts on
	if old := t.Model.Routes[r.Key()]; old != nil {
		for i := range old.Endpoints {
			if e := &old.Endpoints[i]; e.Cluster == t.Model.Name {
				before[e.Worker] = e.At
			}
		}
	}
	for i := range r.Endpoints {
		if e := &r.Endpoints[i]; e.Cluster == t.Model.Name && t.Model.Workers[e.Worker] != nil {
			if e.At = t.Model.Workers[e.Worker].Place; e.At == nil {
				e.At = before[e.Worker]
			}
		}
	}
}

// InCrowds are the workers that serve or use a service of which routers do not measure all
// workers.
func InCrowds(m *state.Model) map[string]bool {
	marks, in := map[string]bool{}, map[string]bool{}
	for key, r := range m.Routes {
		if !crowded(m.Name, r) {
			continue
		}
		app, _, _ := strings.Cut(key, ".")
		marks[usesService+key], marks[UsesApp+app] = true, true
		for i := range r.Endpoints {
			if e := &r.Endpoints[i]; e.Cluster == m.Name {
				in[e.Worker] = true
			}
		}
	}
	if len(marks) == 0 {
		return nil
	}
	for name := range m.Workers {
		if u := Memory(m).Uses[name]; u != nil {
			for mark := range u.Marks {
				in[name] = in[name] || marks[mark]
			}
		}
	}
	return in
}
