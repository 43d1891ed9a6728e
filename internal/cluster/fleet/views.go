package fleet

import (
	"slices"

	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// Request asks for a worker for an instance. Which clusters may have it the root
// has decided already.
func Request(i *wire.Instance, s *wire.Share) place.Request {
	r := place.NewRequest(i.ID, s.Spec, 1)
	r.Affinity.Cluster, r.Affinity.Area = nil, nil
	r.AntiAffinity.Cluster, r.AntiAffinity.Area = nil, nil
	r.Pinned = i.Pinned
	return r
}

// Used is the usage as this tx leaves it, counted once.
func Used(t *state.Tx) map[string]*Usage {
	if Pass(t).use == nil {
		Pass(t).use = Reserved(t)
	}
	return Pass(t).use
}

// keptApart are the services of an application of which none may run beside the
// one named: those that it excludes and those that exclude it.
func keptApart(t *state.Tx, app, service string) []string {
	if Pass(t).apart == nil {
		Pass(t).apart = map[string][]string{}
		for _, s := range t.Model.Shares {
			for _, other := range s.Spec.AntiAffinity.Service {
				for _, pair := range [...][2]string{{s.Service, other}, {other, s.Service}} {
					key := s.App + "." + pair[0]
					if !slices.Contains(Pass(t).apart[key], pair[1]) {
						Pass(t).apart[key] = append(Pass(t).apart[key], pair[1])
					}
				}
			}
		}
		for _, list := range Pass(t).apart {
			slices.Sort(list)
		}
	}
	return Pass(t).apart[app+"."+service]
}

// Views are the workers as they are, by name, whatever is to be placed.
func Views(t *state.Tx, use map[string]*Usage) []place.WorkerView {
	out := make([]place.WorkerView, 0, len(t.Model.Workers))
	for _, name := range t.Model.WorkerNames() {
		v := View(t.Model.Workers[name], name)
		v.Used = use[name].Used
		use[name].taken(v.Devices)
		out = append(out, v)
	}
	return out
}

// View is what a worker is, without what it runs.
func View(w *state.Worker, name string) place.WorkerView {
	labels := w.Labels
	if labels == nil {
		labels = w.Info.Labels
	}
	var users []string
	if iso := w.Info.Isolation; iso != nil && iso.Users { // without, all run as the user of the worker
		users = iso.HostUsers
	}
	return place.WorkerView{
		ID: name, HostUsers: users, Runtimes: w.Info.Runtimes, Capacity: w.Info.Capacity, Suspect: w.Suspect ||
			!w.EverHeard, Cordoned: w.Cordon != nil,
		Arch: w.Info.Arch, Labels: labels, Location: w.Info.Location, HostPaths: w.Info.HostPaths,
		Devices: Devices(w), Coord: w.Coord, Overlay: inOverlay(w),
	}
}
