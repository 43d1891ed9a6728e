package routes

import (
	"net/netip"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/root/netlease"
	"github.com/verge-edge/verge/internal/root/placement"
	"github.com/verge-edge/verge/internal/root/rollouts"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Derive derives the routes of all services, which every cluster gets. That of a service
// without ports says where its instances are to those that must be near them, nothing else.
func Derive(t *state.Tx, now time.Time) {
	want, named := map[string]*wire.Route{}, placement.NearServices(t)
	for name, app := range t.Model.Apps {
		if !app.Deleting.IsZero() {
			continue
		}
		for svc, s := range app.Spec.Services {
			if len(s.Ports) > 0 || named[name+"."+svc] {
				r := &wire.Route{V: wire.Version, App: name, Namespace: wire.NamespaceOf(app.Spec), Service: svc,
					Ports: s.Ports, Requests: wire.RequestsOf(s), AppNumber: netlease.NumberOf(t, name),
					Export: s.Export}
				r.ServiceIP, _ = netip.ParseAddr(s.ServiceIP) // checked when it was applied
				r.SetPolicy(s.Policy)
				want[name+"."+svc] = r
			}
		}
	}
	for _, name := range records.SortedKeys(t.Model.Clusters) {
		c := t.Model.Clusters[name]
		if !c.EverHeard || c.Inbox.Ack().Inc == "" {
			// This process has not heard from it yet. What it said to the one before
			// is better than nothing: a restart of the root must not empty a route.
			for key, old := range t.Model.Routes {
				for _, e := range old.Endpoints {
					if r := want[key]; r != nil && e.Cluster == name &&
						!(t.Model.Dead(c, now) && replaced(t, e.Instance)) {
						r.Endpoints = append(r.Endpoints, e)
					}
				}
			}
			continue
		}
		for _, rep := range c.Seen {
			// What a cluster claims counts only for what it was given.
			i := t.Inst(rep.ID)
			if i == nil && rollouts.Extra(t, c, rep) {
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
			if r == nil || rep.Draining || nobody || !runs && !lost || t.Model.Dead(c, now) && replaced(t, rep.ID) {
				continue
			}
			e := netlease.Endpoint(t, c, rep)
			e.Asleep, e.StartUp = rep.Asleep && rep.State == wire.WorkerScheduled, rep.StartUp
			e.Suspect = rep.Unreachable || c.Suspect || lost && !e.Asleep
			r.Endpoints = append(r.Endpoints, e)
		}
	}
	for _, i := range t.Instances("") {
		if r := want[i.App+"."+i.Service]; r != nil && len(r.Endpoints) == 0 && r.Lacks == "" &&
			i.State == wire.Requested {
			r.Lacks = place.ForClients(i.Reason)
		}
	}
	for key, r := range want {
		r.Sort("")
		old := t.Model.Routes[key]
		if named[key] {
			placement.Whereabouts(t, r, old)
		}
		if old == nil || !records.Same(old, r) {
			t.Routes[key], t.All = r, true
		}
	}
	for key := range t.Model.Routes {
		if want[key] == nil {
			t.Routes[key], t.All = nil, true
		}
	}
}

// replaced says whether another instance runs in the place of this one.
func replaced(t *state.Tx, id wire.InstanceID) bool {
	i := t.Inst(id)
	if i == nil {
		return true
	}
	return slices.ContainsFunc(t.Of(i.App, i.Service), func(o *wire.Instance) bool {
		if o.Replaces != id || o.Draining {
			return false
		}
		c := t.Model.Clusters[o.Cluster]
		if c == nil {
			return false
		}
		rep := c.Seen[o.ID]
		return rep != nil && rep.State == wire.Running && rep.Ready
	})
}
