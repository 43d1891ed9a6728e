package root

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/wire"
)

// delegate derives the shares from the instances that each cluster was given.
func (t *tx) delegate() {
	want := map[string]*wire.Share{}
	promised := map[string]int{} // instances that always run, by service
	replaced := map[wire.InstanceID]bool{}
	for _, i := range t.instances("") {
		if i.Replaces != "" && i.Cluster != "" && !i.Draining {
			replaced[i.Replaces] = true
		}
	}
	for _, i := range t.instances("") {
		app := t.m.apps[i.App]
		if i.Cluster == "" || i.Draining || app == nil || app.Spec.Services[i.Service] == nil {
			continue
		}
		key := i.Cluster + "." + i.App + "." + i.Service
		s := want[key]
		if s == nil {
			s = &wire.Share{
				V: wire.Version, App: i.App, Namespace: wire.NamespaceOf(app.Spec), Standing: t.m.standing(wire.NamespaceOf(app.Spec)).Claims(), Service: i.Service, Revision: app.Revision,
				Spec: app.Spec.Services[i.Service], AppNumber: t.numberOf(i.App), Elsewhere: len(t.m.clusters) > 1, Waves: t.m.waveGate(wire.NamespaceOf(app.Spec)),
			}
			want[key] = s
		}
		// Those promised are the first that no cluster has lost; where a cluster goes on
		// by itself, it runs what it was promised.
		if svc := i.App + "." + i.Service; !s.Spec.Replicas.Elastic() {
			s.Min++
		} else if !i.Unreachable && promised[svc] < s.Spec.Replicas.Min {
			promised[svc]++
			s.Min++
		}
		s.Max++
		if c := t.m.clusters[i.Cluster]; replaced[i.ID] && c != nil && c.seen[i.ID] != nil && c.seen[i.ID].Room != nil {
			s.Replacing = append(s.Replacing, i.Ordinal)
		}
		// In order of ordinals, so that a span can only grow at its end.
		if n := len(s.Ordinals); n > 0 && s.Ordinals[n-1].To == i.Ordinal {
			s.Ordinals[n-1].To++
		} else {
			s.Ordinals = append(s.Ordinals, wire.Span{From: i.Ordinal, To: i.Ordinal + 1})
		}
	}
	for key, s := range want {
		if o := t.overs(s.App + "." + s.Service); o != nil && s.Spec.Replicas.Elastic() {
			name, _, _ := strings.Cut(key, ".")
			s.Extra = scale.Extra(o.Gives, name)
		}
	}
	t.waves(want)
	t.jobShares(want)
	t.cronShares(want)
	t.doneShares(want)
	t.restart(want)
	for key, s := range want {
		if old := t.m.shares[key]; old == nil || !sameShare(old, s) {
			t.share(key, s)
		}
	}
	for key := range t.m.shares {
		if want[key] == nil {
			t.share(key, nil)
		}
	}
}

// overs is what runs elsewhere of a service, as this tx sees it; nil for nothing.
func (t *tx) overs(key string) *overflow {
	if o, ok := t.over[key]; ok {
		return o
	}
	return t.m.over[key]
}

// sameShare compares without encoding where nothing was read or applied since:
// the shares of a large application are megabytes.
func sameShare(old, s *wire.Share) bool {
	if old.Spec == s.Spec && old.Revision == s.Revision && old.AppNumber == s.AppNumber && old.Min == s.Min && old.Max == s.Max && old.Extra == s.Extra && old.Elsewhere == s.Elsewhere && slices.Equal(old.Replacing, s.Replacing) && old.Waves == s.Waves && old.Standing == s.Standing && slices.Equal(old.Ordinals, s.Ordinals) && sameRestarts(old, s) && sameJob(old, s) && sameHold(old.Hold, s.Hold) {
		return true
	}
	if !records.Same(old, s) {
		return false
	}
	old.Spec = s.Spec // equal, and known to be the next time
	return true
}

// sameJob compares what shares say of jobs.
func sameJob(a, b *wire.Share) bool {
	if (a.Parallel == nil) != (b.Parallel == nil) || a.Parallel != nil && *a.Parallel != *b.Parallel {
		return false
	}
	return maps.Equal(a.Index, b.Index) && records.Same(a.Stop, b.Stop) && records.Same(a.Cron, b.Cron) && records.Same(a.Done, b.Done)
}

func (t *tx) share(key string, s *wire.Share) {
	t.shares[key] = s
	name, service, _ := strings.Cut(key, ".")
	old := t.m.shares[key]
	was, is, elastic := 0, 0, false
	if old != nil {
		was, elastic = old.Max, old.Spec != nil && old.Spec.Replicas.Elastic()
	}
	if s != nil {
		is, elastic = s.Max, s.Spec.Replicas.Elastic()
	}
	if elastic && was != is { // in one line, whatever their number
		t.event("service/"+service, "up to %d may run in cluster %s, %d before", is, name, was)
	}
	t.nudge[name] = true
}

// route derives the routes of all services, which every cluster gets. That of a service
// without ports says where its instances are to those that must be near them, nothing else.
func (t *tx) route(now time.Time) {
	want, named := map[string]*wire.Route{}, t.named()
	for name, app := range t.m.apps {
		if !app.Deleting.IsZero() {
			continue
		}
		for svc, s := range app.Spec.Services {
			if len(s.Ports) > 0 || named[name+"."+svc] {
				r := &wire.Route{V: wire.Version, App: name, Namespace: wire.NamespaceOf(app.Spec), Service: svc, Ports: s.Ports, Requests: wire.RequestsOf(s), AppNumber: t.numberOf(name), Export: s.Export}
				r.ServiceIP, _ = netip.ParseAddr(s.ServiceIP) // checked when it was applied
				r.SetPolicy(s.Policy)
				want[name+"."+svc] = r
			}
		}
	}
	for _, name := range records.SortedKeys(t.m.clusters) {
		c := t.m.clusters[name]
		if !c.everHeard || c.inbox.Ack().Inc == "" {
			// This process has not heard from it yet. What it said to the one before
			// is better than nothing: a restart of the root must not empty a route.
			for key, old := range t.m.routes {
				for _, e := range old.Endpoints {
					if r := want[key]; r != nil && e.Cluster == name && !(t.m.dead(c, now) && t.replaced(e.Instance)) {
						r.Endpoints = append(r.Endpoints, e)
					}
				}
			}
			continue
		}
		for _, rep := range c.seen {
			// What a cluster claims counts only for what it was given.
			i := t.inst(rep.ID)
			if i == nil && t.extra(c, rep) {
				i = &rep.Instance
			} else if i == nil || i.Cluster != name || i.Draining {
				continue
			}
			r := want[i.App+"."+i.Service]
			runs := rep.State == wire.Running && rep.Ready
			// A lost placement that nobody replaced may run all the same, and so may
			// what a dead cluster has: a try is better than a certain refusal.
			somewhere := rep.Address != "" || len(rep.Addrs) > 0
			lost := !runs && somewhere
			nobody := rep.Peer == "" && !somewhere // its worker's key was revoked
			if r == nil || rep.Draining || nobody || !runs && !lost || t.m.dead(c, now) && t.replaced(rep.ID) {
				continue
			}
			e := t.endpoint(c, rep)
			e.Asleep, e.StartUp = rep.Asleep && rep.State == wire.WorkerScheduled, rep.StartUp
			e.Suspect = rep.Unreachable || c.suspect || lost && !e.Asleep
			r.Endpoints = append(r.Endpoints, e)
		}
	}
	for _, i := range t.instances("") {
		if r := want[i.App+"."+i.Service]; r != nil && len(r.Endpoints) == 0 && r.Lacks == "" && i.State == wire.Requested {
			r.Lacks = place.ForClients(i.Reason)
		}
	}
	for key, r := range want {
		r.Sort("")
		old := t.m.routes[key]
		if named[key] {
			t.whereabouts(r, old)
		}
		if old == nil || !records.Same(old, r) {
			t.routes[key], t.all = r, true
		}
	}
	for key := range t.m.routes {
		if want[key] == nil {
			t.routes[key], t.all = nil, true
		}
	}
}

// replaced says whether another instance runs in the place of this one.
func (t *tx) replaced(id wire.InstanceID) bool {
	i := t.inst(id)
	if i == nil {
		return true
	}
	return slices.ContainsFunc(t.of(i.App, i.Service), func(o *wire.Instance) bool {
		if o.Replaces != id || o.Draining {
			return false
		}
		c := t.m.clusters[o.Cluster]
		if c == nil {
			return false
		}
		rep := c.seen[o.ID]
		return rep != nil && rep.State == wire.Running && rep.Ready
	})
}

// finish drops deleted applications of which nothing is stored any more: an application is
// stored before what it has, and so deleted after that.
func (t *tx) finish(now time.Time) {
	for name, app := range t.m.apps {
		if !app.Deleting.IsZero() && !t.m.hasSome(name) {
			t.apps[name] = nil
			for _, r := range t.m.history[name] {
				revisionTable.Put(t.rows, revisionID(name, r.Revision), nil)
			}
			t.bury(app)
			t.event("application/"+name, "deleted")
			t.deleted(app, now)
		}
	}
}

// hasSome says whether an instance of an application is stored.
func (m *model) hasSome(app string) bool {
	for _, i := range m.insts {
		if i.App == app {
			return true
		}
	}
	return false
}
