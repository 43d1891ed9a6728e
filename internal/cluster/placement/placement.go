package placement

import (
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/orders"
	"github.com/verge-edge/verge/internal/cluster/profile"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Unfit says why an instance may not run on a worker by what its share says, ""
// if it may. Of services that are kept apart only those count that its own
// excludes: those that exclude it move themselves.
func Unfit(t *state.Tx, i *wire.Instance, name string, s *wire.Share) string {
	w := t.Model.Workers[name]
	if w == nil {
		return ""
	}
	v := fleet.View(w, name)
	for _, other := range s.Spec.AntiAffinity.Service {
		n := fleet.Used(t)[name].Same[i.App+"."+other]
		if other == i.Service && (i.Worker == name || state.UnderWay(i) && i.Moving.Worker == name) {
			n-- // itself
		}
		if n > 0 {
			v.Conflicts = append(v.Conflicts, other)
		}
	}
	return place.Unfit(v, fleet.Request(i, s))
}

// Misfit says why an instance must move to be of the revision of its share, ""
// if it may stay. One with a volume stays in any case.
func Misfit(t *state.Tx, i *wire.Instance, s *wire.Share) string {
	if i.Pinned != "" || i.State != wire.Running && i.State != wire.WorkerScheduled {
		return ""
	}
	return Unfit(t, i, i.Worker, s)
}

// Move updates an instance whose worker does not satisfy what a new revision
// asks for: it is placed again, and its old order is swept away. Where no worker
// can take it, it has failed here, and is given back to the root, unless some
// workers have not been heard yet.
func Move(t *state.Tx, i wire.Instance, s *wire.Share, why string, now time.Time) {
	i.Revision, i.LastExit, i.Avoid = s.Revision, nil, nil
	d := Schedule(t, &i, s, nil)
	if advisor.Pass(t).Waiting[i.ID] {
		return // it goes on where it is
	}
	reason := fmt.Sprintf("moving for revision %d: its worker %s", s.Revision, why)
	if d.Chosen == "" {
		if !instances.Gathering(t.Model, now) {
			Unplaced(t, t.Advance(i, wire.Failed, now, t.Model.Tier(), reason), d, now)
		}
		return
	}
	if i.State == wire.Running { // else it has not started yet, and nobody misses it
		i = t.Advance(i, wire.WorkerScheduled, now, t.Model.Tier(), reason)
	}
	release(t, &i, s)
	Assign(t, i, s, d, now)
}

// release gives back what an instance has of its worker.
func release(t *state.Tx, i *wire.Instance, s *wire.Share) {
	u := fleet.Used(t)[i.Worker]
	if u == nil {
		return
	}
	if !state.Asleep(i) { // else it reserves nothing
		u.Used = amount.Sub(u.Used, s.Spec.Resources)
	}
	u.Same[i.App+"."+i.Service]--
	u.N--
	fleet.Refit(t, i.Worker, i.App, i.Service)
}

// Reserve takes what an instance needs of a worker.
func Reserve(t *state.Tx, name string, i *wire.Instance, s *wire.Share) {
	u := fleet.Used(t)[name]
	if u == nil {
		return
	}
	u.Used = amount.Add(u.Used, s.Spec.Resources)
	u.Add(i)
	fleet.Refit(t, name, i.App, i.Service)
}

// Schedule asks the scheduler for a worker.
func Schedule(t *state.Tx, i *wire.Instance, s *wire.Share, avoid []string) place.Decision {
	r := fleet.Request(i, s)
	r.Avoid = volumes.Shunned(t, i, avoid)
	r.Scheduler, r.Plugin = state.SchedulerOf(t.Model, s)
	if proximity.AsksNear(s.Spec) {
		r.Latency = proximity.Thresholds(t, s, t.Now)
	}
	f := fleet.Index(t)
	switch key := i.App + "." + i.Service; r.Scheduler {
	case "", place.ROM:
		r.Usual = fleet.Usual(t)
	case place.Throughput:
		Rate(t, key)
	case place.NearestDemand:
		Rate(t, key)
		r.Traffic = proximity.Traffic(t, key, i.Worker)
	}
	begin := time.Now()
	var d place.Decision
	if r.Scheduler == state.SchedulerPlugin {
		d = advisor.Advised(t, i, s, r)
	} else {
		d = f.Schedule(i.App+"."+i.Service, r)
	}
	d.TookNs = time.Since(begin).Nanoseconds()
	d.Request.Turn = fleet.Pass(t).Turn
	return d
}

// Assign gives an instance, which is in the state WorkerScheduled, to the worker
// that was chosen.
func Assign(t *state.Tx, i wire.Instance, s *wire.Share, d place.Decision, now time.Time) {
	i.Worker = d.Chosen
	i.Unreachable = false
	orders.Start(t, i, s)
	t.Whys[i.ID] = &place.Record{V: wire.Version, At: now, Decision: d}
	Reserve(t, d.Chosen, &i, s)
	fleet.Occupies(t, t.Inst(i.ID))
}

// Unpin lets an instance go whose volume was lost with its worker.
func Unpin(t *state.Tx, i wire.Instance) wire.Instance {
	if i.Pinned != "" && t.Model.Workers[i.Pinned] == nil {
		t.Event(event.InstanceVolumesLost, i.ID, "its worker was removed from the cluster, and its volumes with it")
		i.Pinned, i.Former = "", i.Pinned
	}
	return i
}

// Unplaced is what becomes of an instance that no worker can take: while the
// cluster is still hearing from its workers it waits, then it is given back to
// the root with the reason. Until the root takes it away the cluster goes on
// trying, so that it heals without the root as soon as there is room.
func Unplaced(t *state.Tx, i wire.Instance, d place.Decision, now time.Time) {
	reason := d.Reason
	avoids := len(instances.Avoided(t, &i, rollouts.ShareFor(t, &i))) > 0
	if why := instances.Failure(t, &i); avoids && why != "" {
		reason += place.FailedBecause + why
	}
	if n := len(i.History); n > 0 && i.History[n-1].Because() == wire.CauseDisplaced {
		reason += "; it was " + i.History[n-1].Why // the root may take it away, and with it all that is known here
	}
	reason += volumes.DescribeLeft(t, &i)
	pinned := i.Pinned != "" // nobody else could take it: it waits here for its worker
	switch {
	case (i.State == wire.Requested || pinned) && avoids &&
		max(now.Sub(i.Since), i.Since.Sub(now)) >= instances.ForgiveAfter:
		// Failing again where it failed is better than not running at all, but not
		// in a hurry.
		i.Avoid = nil
	case instances.Gathering(t.Model, now), i.State == wire.Requested, pinned:
		Explain(&i, reason)
	default:
		i = t.Advance(i, wire.Requested, now, t.Model.Tier(), reason)
		i.Worker = ""
		t.Whys[i.ID] = &place.Record{V: wire.Version, At: now, Decision: d}
		what := "returned to the root"
		if state.StandIn(&i) {
			what = "has no room beyond those promised"
		} else if i.Ordinal >= wire.LocalOrdinals {
			what = "waits for room"
		}
		t.Event(event.InstanceNoRoom, i.ID, "%s: %s", what, reason)
	}
	t.Put(i)
}

// Rate tells the index what each worker does of a service, by its profile.
func Rate(t *state.Tx, key string) {
	if fleet.Pass(t).Told[key] {
		return
	}
	if fleet.Pass(t).Told == nil {
		fleet.Pass(t).Told = map[string]bool{}
	}
	fleet.Pass(t).Told[key] = true
	r := profile.Rated(t, key)
	if r == nil {
		return
	}
	for name, w := range t.Model.Workers {
		serves, _ := r.On(w)
		fleet.Index(t).Rate(key, name, serves)
	}
}

// Scratch is what is worked out in the course of one pass.
type Scratch struct {
	// Tried are those that make room, and whose move elsewhere came to nothing.
	Tried map[wire.InstanceID]bool
	// Victims were displaced, and wait for another worker since.
	Victims []wire.InstanceID
}

var scratch = table.AddScratch[Scratch](&state.Schema)

// Pass is the scratch of the pass that t is of.
func Pass(t *state.Tx) *Scratch { return scratch.Of(t.Rows, nil) }
