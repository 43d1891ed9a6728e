package cluster

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// route derives the routes that the workers need: every service known here,
// with its ready instances of this cluster and those that the root told of.
func (t *tx) route() {
	want := t.ofRoot(nil)
	for _, i := range t.Instances() {
		t.endpoint(want[i.App+"."+i.Service], i)
	}
	t.tellRoutes(want)
	for key := range t.m.Routes {
		if want[key] == nil {
			t.tellRoute(key, nil)
		}
	}
}

// routeOf derives the routes of some services, by application and service, of which
// there is none that is to go.
func (t *tx) routeOf(services map[[2]string]bool) {
	keys := map[string]bool{}
	for s := range services {
		keys[s[0]+"."+s[1]] = true
	}
	if len(keys) == 0 {
		return
	}
	want := t.ofRoot(keys)
	if len(want) == 0 {
		return
	}
	for _, i := range records.Merged(t.m.Insts, t.Insts) {
		if services[[2]string{i.App, i.Service}] {
			t.endpoint(want[i.App+"."+i.Service], i)
		}
	}
	t.tellRoutes(want)
}

// ofRoot are the routes of the services in keys, nil for all, with the endpoints that
// the root told of.
func (t *tx) ofRoot(keys map[string]bool) map[string]*wire.Route {
	want := map[string]*wire.Route{}
	for key, f := range t.m.Far {
		if keys != nil && !keys[key] || len(f.Ports) == 0 { // where it is, for near.go
			continue
		}
		r := *f
		r.Endpoints, r.Where = nil, nil
		for _, e := range f.Endpoints {
			if e.Cluster != t.m.Name { // about our own we know better
				r.Endpoints = append(r.Endpoints, e)
			}
		}
		want[key] = &r
	}
	taken, upgrades := t.m.rootHosts(), t.m.countsForUpgrade()
	for key, s := range t.m.Shares {
		if len(s.Spec.Ports) == 0 || keys != nil && !keys[key] {
			continue
		}
		r := want[key]
		if r == nil {
			r = &wire.Route{V: wire.Version, App: s.App, Namespace: s.Namespace, Service: s.Service, AppNumber: t.net.AppNumber(s.App, s.Namespace)}
			want[key] = r
		}
		r.SetPolicy(s.Spec.Policy)
		r.Ports, r.Requests = s.Spec.Ports, wire.RequestsOf(s.Spec)
		r.Requests.Counted = t.m.scheduler(s) == place.NearestDemand || watched(s) && t.rollOf(key).open() || upgrades && judged(s)
		r.Export = s.Spec.Export
		if t.m.Given[key] == nil {
			r.Ports = t.m.withoutHosts(s, taken)
		}
	}
	return want
}

// endpoint adds an instance to the route of its service, nil for none, where it may
// answer.
func (t *tx) endpoint(r *wire.Route, i *wire.Instance) {
	w, lost := t.m.Serves(i)
	if r == nil || w == nil {
		return
	}
	serves, by := t.rated(i.App + "." + i.Service).on(w)
	trial, share := t.trial(i)
	r.Endpoints = append(r.Endpoints, wire.Endpoint{
		Serves: serves, ServesBy: by,
		Instance: i.ID, Cluster: t.m.Name, Worker: w.Info.Name, Address: w.Info.Address, Suspect: w.Suspect || lost,
		Addrs: t.net.Addrs(i, w), Relay: t.net.RelayOf(w), CPU: w.Info.Capacity.CPU, Asleep: state.Asleep(i), StartUp: i.StartUp,
		Trial: trial, TrialShare: share,
	})
}

// tellRoutes completes routes and notes those that are others than before.
func (t *tx) tellRoutes(want map[string]*wire.Route) {
	t.lacks(want)
	for key, r := range want {
		r.Sort(t.m.Name)
		t.sayBeyond(r, t.m.Routes[key])
		if old := t.m.Routes[key]; old == nil || !records.Same(old, r) {
			t.tellRoute(key, r)
		} else if t.m.Names[key] == nil {
			t.tellRoute(key, old) // of a version that gave all to all
		}
	}
}

// sayBeyond says when a route begins to have, or has no more, instances beyond its bound.
func (t *tx) sayBeyond(r, old *wire.Route) {
	was := old != nil && old.Beyond > 0
	switch {
	case r.Beyond > 0 && !was:
		t.Event("service/"+r.Key(), "it has more instances than a route has room for: requests come to %d, and to %d not", len(r.Endpoints), r.Beyond)
	case r.Beyond == 0 && was:
		t.Event("service/"+r.Key(), "requests come to all of its instances again")
	}
}

// lacks says in the routes that have no endpoints why they have none: by what is to run
// here, else as the root says.
func (t *tx) lacks(want map[string]*wire.Route) {
	for key, r := range want {
		s := t.m.Shares[key]
		switch {
		case len(r.Endpoints) > 0:
			r.Lacks = ""
			continue
		case s == nil:
			continue
		}
		for _, o := range ordinals(s) {
			i := t.Inst(instanceID(s.App, s.Service, o))
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

// reportUp derives what the root is told about each instance.
func (t *tx) reportUp() {
	for _, i := range t.Instances() {
		t.report(i)
	}
	for id := range t.m.Ups {
		if t.Inst(id) == nil {
			t.Ups[id] = nil
		}
	}
}

// report derives what the root is told about an instance.
func (t *tx) report(i *wire.Instance) {
	old := t.m.Ups[i.ID]
	up := t.reported(i, old)
	if old != nil && records.Identical(old, &up) { // as most are, which takes no memory
		return
	}
	if next := up; old == nil || !records.Same(old, &next) {
		t.Ups[next.ID] = &next
	}
}

// reported is the part of an instance's record that may leave the cluster. It shares
// what has not changed with what was said of it before (old, nil for nothing).
func (t *tx) reported(i *wire.Instance, old *wire.Reported) wire.Reported {
	m := t.m
	up := wire.Reported{Instance: *i}
	up.Retained = i.Shadow != nil && i.Worker == ""
	up.SLAViolation = t.unkept[i.ID]
	up.Failed = t.failedFor(i, t.shareFor(i))
	up.Avoid, up.Shadow, up.Moving, up.Leaving, up.FailedProgram, up.Places = nil, nil, nil, nil, "", nil
	if w, _ := m.Serves(i); w != nil {
		up.Trial, up.TrialShare = t.trial(i)
		up.Address, up.Peer = w.Info.Address, m.Peer(w.Info.Name)
		if m.net.RelayOnly {
			up.Address = ""
		}
		if up.Addrs, up.Relay = t.net.Addrs(i, w), t.net.RelayOf(w); old != nil && slices.Equal(old.Addrs, up.Addrs) {
			up.Addrs = old.Addrs
		}
		if s := m.Shares[i.App+"."+i.Service]; s != nil && s.Spec.Policy.Name == api.PolicyWeighted {
			up.CPU = w.Info.Capacity.CPU // others are not told without need what machines there are
		}
		if s := m.Shares[i.App+"."+i.Service]; s != nil && sharesByWeight(s.Spec.Policy) {
			up.Serves, up.ServesBy = t.rated(i.App + "." + i.Service).on(w)
		}
	}
	if m.Details {
		return up
	}
	if up.Volumes != nil {
		up.Reason = volumeWords(up.Volumes, "it is stopped while ")
	}
	up.Worker, up.Pinned, up.Former, up.Volumes, up.VolumesEnded = "", "", "", nil, nil
	if old != nil && slices.EqualFunc(old.History, i.History, func(said, is wire.Transition) bool { return said == outside(is) }) {
		up.History = old.History
		return up
	}
	up.History = slices.Clone(i.History)
	for n := range up.History {
		up.History[n] = outside(up.History[n])
	}
	return up
}

// outside is a transition without the name of a worker.
func outside(h wire.Transition) wire.Transition {
	if strings.HasPrefix(h.Tier, "worker/") {
		h.Tier = "worker"
	}
	return h
}

// aggregate is all that the root learns about the inside.
func (m *model) aggregate(reflects wire.Rev, areas []string) wire.Aggregate {
	t := m.begin()
	runtimes, cordoned := map[string]bool{}, 0
	views := slices.DeleteFunc(t.views(t.usage()), func(v place.WorkerView) bool {
		if v.Cordoned && !v.Suspect {
			cordoned++
		}
		return v.Cordoned && !v.Suspect
	})
	for n := range views {
		if v := &views[n]; !v.Suspect {
			for _, r := range v.Runtimes {
				runtimes[r] = true
			}
		}
	}
	agg := place.Aggregate(views)
	agg.V, agg.Areas, agg.Instances, agg.Reflects, agg.Details = wire.Version, areas, len(m.Insts), reflects, m.Details
	agg.Site, agg.SealKey, agg.Cordoned = m.Site, m.vault.Public(), cordoned
	agg.Plugins = slices.Sorted(maps.Keys(m.plugins))
	agg.Runtimes = slices.Sorted(maps.Keys(runtimes))
	place.Describe(views, &agg)
	if agg.Around != nil {
		agg.Around.Outside = m.near.outside()
	}
	agg.Lower = t.lower(views)
	agg.Network = netlease.Need(m.Model)
	agg.Gateways = secrets.Gateways(m.Model)
	agg.Short, agg.Entering = m.shortages(), m.entering
	return agg
}

// behind counts the workers that do not trust the authorities that trust names.
func (m *model) behind(trust string) (n int) {
	for _, w := range m.Workers {
		if w.Revoked.IsZero() && w.Info.Trust != trust {
			n++
		}
	}
	return n
}

// significant says whether an aggregate changed enough to be sent before its
// time: another number of workers, or a free amount that moved by more than 5 %.
func significant(a, b wire.Aggregate) bool {
	if a.Workers != b.Workers || a.Suspect != b.Suspect || a.Cordoned != b.Cordoned || a.Reflects != b.Reflects || a.SealKey != b.SealKey || a.Gateways != b.Gateways ||
		a.Trust != b.Trust || a.Behind != b.Behind || !a.Expires.Equal(b.Expires) ||
		!slices.Equal(a.Areas, b.Areas) || !slices.Equal(a.Runtimes, b.Runtimes) || !slices.Equal(a.Plugins, b.Plugins) || a.Details != b.Details ||
		!place.SameDescription(&a, &b) || !slices.Equal(a.Short, b.Short) || !slices.Equal(a.Entering, b.Entering) || !bytes.Equal(a.Objects, b.Objects) || !records.Same(a.Network, b.Network) || !records.Same(a.Site, b.Site) {
		return true
	}
	moved := func(x, y wire.Spread) bool {
		return math.Abs(x.Sum-y.Sum) > 0.05*math.Max(x.Sum, y.Sum) || math.Abs(x.Max-y.Max) > 0.05*math.Max(x.Max, y.Max)
	}
	return moved(a.CPU, b.CPU) || moved(a.Memory, b.Memory) || moved(a.Disk, b.Disk) ||
		moved(a.VGPUs, b.VGPUs) || moved(a.VTPUs, b.VTPUs) || moved(a.In, b.In) || moved(a.Out, b.Out)
}
