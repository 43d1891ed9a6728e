package routes

import (
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/profile"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/upgrades"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// Route derives the routes that the workers need: every service known here,
// with its ready instances of this cluster and those that the root told of.
func Route(t *state.Tx) {
	want := OfRoot(t, nil)
	for _, i := range t.Instances() {
		endpoint(t, want[i.App+"."+i.Service], i)
	}
	tellRoutes(t, want)
	for key := range t.Model.Routes {
		if want[key] == nil {
			tellRoute(t, key, nil)
		}
	}
}

// RouteOf derives the routes of some services, by application and service, of which
// there is none that is to go.
func RouteOf(t *state.Tx, services map[[2]string]bool) {
	keys := map[string]bool{}
	for s := range services {
		keys[s[0]+"."+s[1]] = true
	}
	if len(keys) == 0 {
		return
	}
	want := OfRoot(t, keys)
	if len(want) == 0 {
		return
	}
	for _, i := range records.Merged(t.Model.Insts, t.Insts) {
		if services[[2]string{i.App, i.Service}] {
			endpoint(t, want[i.App+"."+i.Service], i)
		}
	}
	tellRoutes(t, want)
}

// OfRoot are the routes of the services in keys, nil for all, with the endpoints that
// the root told of.
func OfRoot(t *state.Tx, keys map[string]bool) map[string]*wire.Route {
	want := map[string]*wire.Route{}
	for key, f := range t.Model.Far {
		if keys != nil && !keys[key] || len(f.Ports) == 0 { // where it is, for package proximity
			continue
		}
		r := *f
		r.Endpoints, r.Where = nil, nil
		for _, e := range f.Endpoints {
			if e.Cluster != t.Model.Name { // about our own we know better
				r.Endpoints = append(r.Endpoints, e)
			}
		}
		want[key] = &r
	}
	taken, upgrading := localedit.RootHosts(t.Model), upgrades.CountsForUpgrade(t.Model)
	for key, s := range t.Model.Shares {
		if len(s.Spec.Ports) == 0 || keys != nil && !keys[key] {
			continue
		}
		r := want[key]
		if r == nil {
			r = &wire.Route{V: wire.Version, App: s.App, Namespace: s.Namespace, Service: s.Service,
				AppNumber: netlease.In(t).AppNumber(s.App, s.Namespace)}
			want[key] = r
		}
		r.SetPolicy(s.Spec.Policy)
		r.Ports, r.Requests = s.Spec.Ports, wire.RequestsOf(s.Spec)
		r.Requests.Counted = state.Scheduler(t.Model, s) == place.NearestDemand || rollouts.Watched(s) &&
			rollouts.Table.Get(t.Rows, key).Open() || upgrading && upgrades.Judged(s)
		r.Export = s.Spec.Export
		if t.Model.FromRoot[key] == nil {
			r.Ports = localedit.WithoutHosts(t.Model, s, taken)
		}
	}
	return want
}

// endpoint adds an instance to the route of its service, nil for none, where it may
// answer.
func endpoint(t *state.Tx, r *wire.Route, i *wire.Instance) {
	w, lost := t.Model.Serves(i)
	if r == nil || w == nil {
		return
	}
	serves, by := profile.Rated(t, i.App+"."+i.Service).On(w)
	trial, share := rollouts.Trial(t, i)
	r.Endpoints = append(r.Endpoints, wire.Endpoint{
		Serves: serves, ServesBy: by,
		Instance: i.ID, Cluster: t.Model.Name, Worker: w.Info.Name, Address: w.Info.Address, Suspect: w.Suspect || lost,
		Addrs: netlease.In(t).Addrs(i, w), Relay: netlease.In(t).RelayOf(w), CPU: w.Info.Capacity.CPU,
		Asleep: state.Asleep(i), StartUp: i.StartUp,
		Trial: trial, TrialShare: share,
	})
}

// tellRoutes completes routes and notes those that are others than before.
func tellRoutes(t *state.Tx, want map[string]*wire.Route) {
	lacks(t, want)
	for key, r := range want {
		tellPlaces(t, r)
		r.Sort(t.Model.Name)
		sayBeyond(t, r, t.Model.Routes[key])
		if old := t.Model.Routes[key]; old == nil || !records.Same(old, r) {
			tellRoute(t, key, r)
		} else if t.Model.Names[key] == nil {
			tellRoute(t, key, old) // of a version that gave all to all
		}
	}
}

// sayBeyond says when a route begins to have, or has no more, instances beyond its bound.
func sayBeyond(t *state.Tx, r, old *wire.Route) {
	was := old != nil && old.Beyond > 0
	switch {
	case r.Beyond > 0 && !was:
		t.Event(event.ServiceBeyond, r.Key(),
			"it has more instances than a route has room for: requests come to %d, and to %d not", len(r.Endpoints),
			r.Beyond)
	case r.Beyond == 0 && was:
		t.Event(event.ServiceBeyond, r.Key(), "requests come to all of its instances again")
	}
}

// lacks says in the routes that have no endpoints why they have none: by what is to run
// here, else as the root says.
func lacks(t *state.Tx, want map[string]*wire.Route) {
	for key, r := range want {
		s := t.Model.Shares[key]
		switch {
		case len(r.Endpoints) > 0:
			r.Lacks = ""
			continue
		case s == nil:
			continue
		}
		for _, o := range state.Ordinals(s) {
			i := t.Inst(state.InstanceID(s.App, s.Service, o))
			if i == nil {
				continue
			}
			if why := lacking(i); why != "" {
				r.Lacks = why
				break
			}
		}
	}
}

// lacking is why an instance is nowhere, for clients; "" where it is somewhere or on its
// way there.
func lacking(i *wire.Instance) string {
	switch i.State {
	case wire.Requested:
		return place.ForClients(i.Reason)
	case wire.Failed:
		return "its instance failed"
	}
	return ""
}
