package root

import (
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// view is a cluster as the ranking sees it, without what it was given.
func (c *cluster) view() place.ClusterView {
	v := place.ClusterView{ID: c.Name, Areas: c.Areas, Connected: !c.suspect && c.agg != nil, Cordoned: c.Cordon != nil}
	if c.agg != nil {
		v.Aggregate, v.Runtimes = *c.agg, c.agg.Runtimes
		if len(c.agg.Areas) > 0 {
			v.Areas = c.agg.Areas
		}
	}
	return v
}

// relocate moves the instances of a service that are in a cluster which its
// descriptor does not allow, or which is being drained, one at a time, and each only when another runs in its
// place: one instance more than wanted is made, and when all that may stay are
// ready, one that may not ends. Active are the instances that count; what is left
// of them is returned, with how many there may be for now, and with the id of the
// one in whose place another is to be made, "" if none is.
//
// The constraints that a cluster alone can judge are not looked at: it gives back
// what no worker of its may run, and says whose agreement it does not keep (notKept).
func (t *tx) relocate(app, svc string, spec *api.Service, active []*wire.Instance, want int, now time.Time) (rest []*wire.Instance, most int, moving string) {
	off := t.offSite(app, svc, spec, active, now)
	if len(off) == 0 || want == 0 {
		return active, want, ""
	}
	settled := true
	for _, i := range active {
		settled = settled && (off[i.ID] != "" || t.answers(i))
	}
	least := want + 1
	if settled {
		least = want
	}
	for len(active) > least && len(off) > 0 {
		next := leave(active, off, t.answers)
		t.event("instance/"+next.ID, "ends: cluster %s %s", next.Cluster, off[next.ID])
		t.end(*next, now)
		active = slices.DeleteFunc(slices.Clone(active), func(i *wire.Instance) bool { return i == next })
		delete(off, next.ID)
	}
	switch {
	case len(off) == 0:
		return active, want, ""
	case !settled:
		return active, want + 1, ""
	}
	return active, want + 1, leave(active, off, t.answers).ID
}

// leave is the instance to go next: one that does not answer if there is one.
func leave(active []*wire.Instance, off map[string]string, answers func(*wire.Instance) bool) *wire.Instance {
	var next *wire.Instance
	for _, i := range active {
		if off[i.ID] != "" && (next == nil || answers(next) && !answers(i)) {
			next = i
		}
	}
	return next
}

// offSite are the instances that are not to be in the cluster that has them, with
// the reason: what misfits has, and what is in clusters that are being drained.
func (t *tx) offSite(app, svc string, spec *api.Service, list []*wire.Instance, now time.Time) map[string]string {
	off := t.misfits(app, svc, spec, list)
	if spec.Pins() {
		return off
	}
	if id, why := t.notKept(app, svc, spec, list, now); id != "" && off[id] == "" {
		if off == nil {
			off = map[string]string{}
		}
		off[id] = why
	}
	for id, why := range t.makeRoom(app, svc, spec, list, now) {
		if off == nil {
			off = map[string]string{}
		}
		if off[id] == "" {
			off[id] = why
		}
	}
	if id, why := t.led(app+"."+svc, spec, list); id != "" && off[id] == "" {
		if off == nil {
			off = map[string]string{}
		}
		off[id] = why
	}
	for _, i := range list {
		if c := t.m.clusters[i.Cluster]; c.draining() && t.mayMove(i, c) {
			if off == nil {
				off = map[string]string{}
			}
			off[i.ID] = "is being drained"
		}
	}
	return off
}

// roomRest is how long a cluster is given nothing of a service after an instance of it had
// to make room there.
const roomRest = 5 * time.Minute

// makeRoom are the instances of a service that are to make room where they are and that
// another cluster may take, with the reason.
func (t *tx) makeRoom(app, svc string, spec *api.Service, list []*wire.Instance, now time.Time) map[wire.InstanceID]string {
	if spec.Replicas.Elastic() {
		return nil
	}
	var off map[wire.InstanceID]string
	for _, i := range list {
		c := t.m.clusters[i.Cluster]
		if c == nil || !t.mayMove(i, c) || c.seen[i.ID] == nil || c.seen[i.ID].Room == nil {
			continue
		}
		next := slices.IndexFunc(list, func(o *wire.Instance) bool { return o.Replaces == i.ID })
		if next < 0 && !t.elsewhere(i, now) {
			continue // it is ended there, and waits
		}
		why := "is to give its room to others: it " + c.seen[i.ID].Room.For
		if next < 0 {
			c.refused[app+"."+svc] = refusal{spec: spec, at: now, wait: roomRest, why: "an instance of it had to make room there"}
		}
		if off == nil {
			off = map[wire.InstanceID]string{}
		}
		off[i.ID] = why
	}
	return off
}

// misfits are the instances in clusters that the descriptor excludes or does not
// name, with the reason.
func (t *tx) misfits(app, svc string, spec *api.Service, list []*wire.Instance) map[string]string {
	a, anti := spec.Affinity, spec.AntiAffinity
	if len(a.Cluster)+len(a.Area)+len(anti.Cluster)+len(anti.Area) == 0 || spec.Pins() {
		return nil
	}
	req := place.NewRequest(app+"."+svc, spec, 1)
	why, off := map[string]string{}, map[string]string{} // by cluster, by instance
	for _, i := range list {
		c := t.m.clusters[i.Cluster]
		if c == nil || !t.mayMove(i, c) {
			continue
		}
		if _, known := why[i.Cluster]; !known {
			why[i.Cluster] = place.OffSite(c.view(), req)
		}
		if w := why[i.Cluster]; w != "" {
			off[i.ID] = w
		}
	}
	return off
}

// mayMove: what is cut off is replaced or not by other rules, and what has completed
// runs nowhere. What a cluster says counts, not what it said when it joined.
func (t *tx) mayMove(i *wire.Instance, c *cluster) bool {
	if c.agg == nil || i.Unreachable {
		return false
	}
	rep := c.seen[i.ID]
	return rep == nil || rep.State != wire.Terminated
}

// answers says whether an instance is known to take requests, or to have completed.
func (t *tx) answers(i *wire.Instance) bool {
	c := t.m.clusters[i.Cluster]
	if app := t.m.apps[i.App]; app != nil && !i.Unreachable && t.m.spare(i, app.Spec.Services[i.Service]) {
		return true // there is nothing to wait for
	}
	if c == nil || c.suspect || i.Unreachable {
		return false
	}
	rep := c.seen[i.ID]
	return rep != nil && (rep.State == wire.Running && rep.Ready || rep.Asleep || rep.State == wire.Terminated)
}
