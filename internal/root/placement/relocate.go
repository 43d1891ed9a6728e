package placement

import (
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Relocate moves the instances of a service that are in a cluster which its
// descriptor does not allow, or which is being drained, one at a time, and each only when another runs in its
// place: one instance more than wanted is made, and when all that may stay are
// ready, one that may not ends. Active are the instances that count; what is left
// of them is returned, with how many there may be for now, and with the id of the
// one in whose place another is to be made, "" if none is.
//
// The constraints that a cluster alone can judge are not looked at: it gives back
// what no worker of its may run, and says whose agreement it does not keep (notKept).
func Relocate(t *state.Tx, app, svc string, spec *api.Service, active []*wire.Instance, want int,
	now time.Time) (rest []*wire.Instance, most int, moving string) {
	off := OffSite(t, app, svc, spec, active, now)
	if len(off) == 0 || want == 0 {
		return active, want, ""
	}
	settled := true
	for _, i := range active {
		settled = settled && (off[i.ID] != "" || answers(t, i))
	}
	least := want + 1
	if settled {
		least = want
	}
	for len(active) > least && len(off) > 0 {
		next := leave(t, active, off)
		t.Event(event.InstanceRelocated, next.ID, "ends: cluster %s %s", next.Cluster, off[next.ID])
		t.End(*next, now)
		active = slices.DeleteFunc(slices.Clone(active), func(i *wire.Instance) bool { return i == next })
		delete(off, next.ID)
	}
	switch {
	case len(off) == 0:
		return active, want, ""
	case !settled:
		return active, want + 1, ""
	}
	return active, want + 1, leave(t, active, off).ID
}

// leave is the instance to go next: one that does not answer if there is one.
func leave(t *state.Tx, active []*wire.Instance, off map[string]string) *wire.Instance {
	var next *wire.Instance
	for _, i := range active {
		if off[i.ID] != "" && (next == nil || answers(t, next) && !answers(t, i)) {
			next = i
		}
	}
	return next
}

// OffSite are the instances that are not to be in the cluster that has them, with
// the reason: what misfits has, and what is in clusters that are being drained.
func OffSite(t *state.Tx, app, svc string, spec *api.Service, list []*wire.Instance, now time.Time) map[string]string {
	off := Misfits(t, app, svc, spec, list)
	if spec.Pins() {
		return off
	}
	if id, why := notKept(t, app, svc, spec, list, now); id != "" && off[id] == "" {
		if off == nil {
			off = map[string]string{}
		}
		off[id] = why
	}
	for id, why := range makeRoom(t, app, svc, spec, list, now) {
		if off == nil {
			off = map[string]string{}
		}
		if off[id] == "" {
			off[id] = why
		}
	}
	if id, why := led(t, app+"."+svc, spec, list); id != "" && off[id] == "" {
		if off == nil {
			off = map[string]string{}
		}
		off[id] = why
	}
	for _, i := range list {
		if c := t.Model.Clusters[i.Cluster]; c.Draining() && mayMove(i, c) {
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
func makeRoom(t *state.Tx, app, svc string, spec *api.Service, list []*wire.Instance,
	now time.Time) map[wire.InstanceID]string {
	if spec.Replicas.Elastic() {
		return nil
	}
	var off map[wire.InstanceID]string
	for _, i := range list {
		c := t.Model.Clusters[i.Cluster]
		if c == nil || !mayMove(i, c) || c.Seen[i.ID] == nil || c.Seen[i.ID].Room == nil {
			continue
		}
		next := slices.IndexFunc(list, func(o *wire.Instance) bool { return o.Replaces == i.ID })
		if next < 0 && !Elsewhere(t, i, now) {
			continue // it is ended there, and waits
		}
		why := "is to give its room to others: it " + c.Seen[i.ID].Room.For
		if next < 0 {
			c.Refused[app+"."+svc] = state.Refusal{Spec: spec, At: now, Wait: roomRest,
				Why: "an instance of it had to make room there"}
		}
		if off == nil {
			off = map[wire.InstanceID]string{}
		}
		off[i.ID] = why
	}
	return off
}

// Misfits are the instances in clusters that the descriptor excludes or does not
// name, with the reason.
func Misfits(t *state.Tx, app, svc string, spec *api.Service, list []*wire.Instance) map[string]string {
	a, anti := spec.Affinity, spec.AntiAffinity
	if len(a.Cluster)+len(a.Area)+len(anti.Cluster)+len(anti.Area) == 0 || spec.Pins() {
		return nil
	}
	req := place.NewRequest(app+"."+svc, spec, 1)
	why, off := map[string]string{}, map[string]string{} // by cluster, by instance
	for _, i := range list {
		c := t.Model.Clusters[i.Cluster]
		if c == nil || !mayMove(i, c) {
			continue
		}
		if _, known := why[i.Cluster]; !known {
			why[i.Cluster] = place.OffSite(c.View(), req)
		}
		if w := why[i.Cluster]; w != "" {
			off[i.ID] = w
		}
	}
	return off
}

// mayMove: what is cut off is replaced or not by other rules, and what has completed
// runs nowhere. What a cluster says counts, not what it said when it joined.
func mayMove(i *wire.Instance, c *state.Cluster) bool {
	if c.Aggregate == nil || i.Unreachable {
		return false
	}
	rep := c.Seen[i.ID]
	return rep == nil || rep.State != wire.Terminated
}

// answers says whether an instance is known to take requests, or to have completed.
func answers(t *state.Tx, i *wire.Instance) bool {
	c := t.Model.Clusters[i.Cluster]
	if app := t.Model.Apps[i.App]; app != nil && !i.Unreachable && t.Model.Spare(i, app.Spec.Services[i.Service]) {
		return true // there is nothing to wait for
	}
	if c == nil || c.Suspect || i.Unreachable {
		return false
	}
	rep := c.Seen[i.ID]
	return rep != nil && (rep.State == wire.Running && rep.Ready || rep.Asleep || rep.State == wire.Terminated)
}
