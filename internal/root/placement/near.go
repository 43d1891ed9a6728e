package placement

import (
	"maps"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// What must be near (latency of a descriptor), as far as the root knows: the clusters that
// have instances of a service, and where their workers are on the whole. What an address
// is away from it does not know; clusters measure that.

// Request for count instances of a service, with what they must be near.
func Request(t *state.Tx, app, svc string, spec *api.Service, count int) place.Request {
	req := place.NewRequest(app+"."+svc, spec, count)
	if spec.Replicas.Elastic() {
		// Where they run is for requests to decide: what is shared out are the rights to
		// run one, and rights in many clusters would have to move to where they are used.
		req.Spread = "none"
	}
	req.Data = spec.DataObjects()
	for _, l := range spec.Latency {
		th := place.Threshold{To: l.To, Max: l.Max, Distance: l.Distance}
		if p, ok := l.Place(); ok {
			th.Targets = []place.Target{{ID: l.To, Location: &p, Place: true}}
		} else if to := l.Service(); to != "" {
			if th.Targets = hosts(t, app, to); len(th.Targets) == 0 {
				th.Free = "no instance of " + to + " is placed"
			}
		} else {
			th.Unknown = "the clusters measure it"
		}
		req.Latency = append(req.Latency, th)
	}
	return req
}

// lacking says how many of the objects that a service reads a cluster has not, as far as
// it tells.
func lacking(t *state.Tx, app string, spec *api.Service) func(*state.Cluster) int {
	names := spec.DataObjects()
	a := t.Model.Apps[app]
	if len(names) == 0 || a == nil {
		return func(*state.Cluster) int { return 0 }
	}
	marks := make([]wire.ObjectMark, len(names))
	for n, name := range names {
		marks[n] = wire.MarkOf(wire.NamespaceOf(a.Spec), name)
	}
	return func(c *state.Cluster) (n int) {
		for _, m := range marks {
			if c.Aggregate == nil || !wire.HasMark(c.Aggregate.Objects, m) {
				n++
			}
		}
		return n
	}
}

// NearServices are the services that others must be near, by application and service.
func NearServices(t *state.Tx) map[string]bool {
	out := map[string]bool{}
	for name, app := range t.Model.Apps {
		for _, s := range app.Spec.Services {
			for _, l := range s.Latency {
				if to := l.Service(); to != "" {
					out[name+"."+to] = true
				}
			}
		}
	}
	return out
}

// Whereabouts adds to a route that something must be near where the clusters of its
// endpoints are; old is what was told before, nil for nothing. What a cluster that has not
// reported to this process said before counts on.
func Whereabouts(t *state.Tx, r, old *wire.Route) {
	for _, e := range r.Endpoints {
		if _, done := r.Where[e.Cluster]; done || len(r.Where) >= wire.MaxWheres {
			continue
		}
		var w *wire.Where
		if old != nil {
			if told, ok := old.Where[e.Cluster]; ok {
				w = &told
			}
		}
		if c := t.Model.Clusters[e.Cluster]; c != nil && c.Aggregate != nil {
			w = place.WhereOf(*c.Aggregate, w)
		}
		if w == nil {
			continue
		}
		if r.Where == nil {
			r.Where = map[string]wire.Where{}
		}
		r.Where[e.Cluster] = *w
	}
}

// hosts are the clusters that have instances of a service and are heard of, in order.
func hosts(t *state.Tx, app, svc string) []place.Target {
	in := map[string]bool{}
	for _, i := range t.Of(app, svc) {
		if c := t.Model.Clusters[i.Cluster]; c != nil && c.Aggregate != nil && !c.Suspect && !i.Draining &&
			!i.Unreachable {
			if rep := c.Seen[i.ID]; rep == nil || rep.State != wire.Requested && rep.State != wire.Terminated {
				in[i.Cluster] = true
			}
		}
	}
	var out []place.Target
	for _, name := range slices.Sorted(maps.Keys(in)) {
		out = append(out, place.TargetIn(name, *t.Model.Clusters[name].Aggregate))
	}
	return out
}

// notKept is the instance of a service that is to move to another cluster, since its own
// says that it does not keep its agreement, and why; "" for none. One is begun at a time,
// and at most one in sla.Rest, and only where another cluster may take it. While it moves,
// and for longer each time, nothing of the service is given to the cluster that it leaves.
func notKept(t *state.Tx, app, svc string, spec *api.Service, list []*wire.Instance,
	now time.Time) (id wire.InstanceID, why string) {
	if len(spec.Latency) == 0 && !device.NeededBy(spec) || spec.Replicas.Elastic() {
		return "", ""
	}
	key := app + "." + svc
	for _, i := range list {
		c := t.Model.Clusters[i.Cluster]
		if c == nil || !mayMove(i, c) || c.Seen[i.ID] == nil || c.Seen[i.ID].SLAViolation == "" {
			continue
		}
		why := "cannot keep it as agreed: " + c.Seen[i.ID].SLAViolation
		next := slices.IndexFunc(list, func(o *wire.Instance) bool { return o.Replaces == i.ID })
		switch last := Memory(t.Model).LastMoves[key]; {
		case next >= 0 && list[next].Cluster != "":
			return i.ID, why
		case next < 0 && !last.IsZero() && now.Sub(last) < sla.Rest:
		case Elsewhere(t, i, now):
			if next < 0 {
				Memory(t.Model).LastMoves[key] = now
				noteViolation(c, key, spec, sla.Rest, "an instance of it "+why, now)
			}
			return i.ID, why
		}
	}
	return "", ""
}
