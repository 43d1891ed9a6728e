package scheduling

import (
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/moving"
	"github.com/verge-edge/verge/internal/cluster/placement"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// Preempt makes room for an instance that no worker can take (d says why). False where
// that is not for it to ask, or would be no help.
func Preempt(t *state.Tx, i wire.Instance, s *wire.Share, d place.Decision, avoid []string, now time.Time) bool {
	if _, plugin := state.SchedulerOf(t.Model, s); s.Spec.Priority <= 0 ||
		plugin != "" { // which alone knows what will do
		return false
	}
	req := fleet.Request(&i, s)
	req.Scheduler = "" // all of them take what fits, and that alone matters
	req.Avoid = volumes.Shunned(t, &i, avoid)
	if proximity.AsksNear(s.Spec) {
		req.Latency = proximity.Thresholds(t, s, now)
	}
	key := i.App + "." + i.Service
	if next := fleet.MakingRoom(t).Coming.Schedule(key, req); next.Chosen != "" {
		fleet.Claim(t, next.Chosen, &i, s)
		if !i.Displaces() {
			i.Reason = "waits until others have left worker " + next.Chosen + " and made room"
		}
		t.Put(i)
		return true
	}
	has := fleet.ClaimOf(t, &i)
	worker, victims := fleet.RoomPlan(t, key, req, has).Best(i.ID, avoid)
	if worker == "" {
		return false
	}
	moving, asked := 0, 0
	for _, v := range victims {
		by := fmt.Sprintf("%s, which has priority %d", i.ID, has.Priority)
		if v.Group != has.Group {
			by = fmt.Sprintf("an instance of another namespace, whose priority counts as %d against its %d", has.Rank,
				v.Rank)
		}
		t.Event(event.WorkerDisplacement, t.Model.Name+"/"+worker,
			"%s (namespace %s, priority %d) displaces %s (namespace %s, priority %d)", i.ID, has.Group, has.Priority,
			v.ID, v.Group, v.Priority)
		switch {
		case moveAway(t, v.ID, proximity.RoomFor+by, now):
			moving++
		case placement.AskAway(t, v.ID, proximity.RoomFor+by, now):
			asked++
		default:
			displace(t, v.ID, "displaced by "+by, now)
		}
	}
	fleet.Claim(t, worker, &i, s)
	i.Cause = wire.CauseDisplaces
	i.Reason = fmt.Sprintf("displaces %s on worker %s, which had no room for it",
		named(victims, has.Group), worker)
	if moving > 0 {
		i.Reason += fmt.Sprintf("; %d of %d first %s on another worker", moving, len(victims),
			placement.Verb(moving, "starts", "start"))
	}
	if asked > 0 {
		i.Reason += fmt.Sprintf("; for %d of %d the root first looks for another cluster", asked, len(victims))
	}
	t.Put(i)
	t.Event(event.InstanceDisplaces, i.ID, "%s", i.Reason)
	d.Reason += "; it " + i.Reason
	t.Whys[i.ID] = &place.Record{V: wire.Version, At: now, Decision: d}
	return true
}

// named are victims as who displaces them may know them: those of other namespaces are
// none of its business but for their number.
func named(victims []place.Occupant, group string) string {
	var names []string
	others := 0
	for _, v := range victims {
		if v.Group == group {
			names = append(names, v.ID)
		} else {
			others++
		}
	}
	if others > 0 {
		names = append(names, wire.Count(others, "instance")+" of other namespaces")
	}
	return strings.Join(names, ", ")
}

// moveAway starts an instance that is to make room on another worker, beside the one that
// serves. False where there is none that takes it, or it was tried: then it is to be ended.
func moveAway(t *state.Tx, id wire.InstanceID, why string, now time.Time) bool {
	i := *t.Inst(id)
	s := rollouts.ShareFor(t, &i)
	if s == nil || i.State != wire.Running || !i.Ready || placement.Pass(t).Tried[id] {
		return false // nothing would be interrupted
	}
	d := moving.WhereTo(t, &i, s)
	if d.Chosen == "" {
		return false
	}
	fleet.Leaves(t, i.Worker, &i)
	fleet.Refit(t, i.Worker, i.App, i.Service)
	fleet.Rehold(t, i.Worker, t.Model.Workers[i.Worker], fleet.Used(t)[i.Worker])
	moving.StartMove(t, i, s, d, why, true, now)
	return true
}

// displace ends an instance for another. It is placed again where there is room, at
// present or later.
func displace(t *state.Tx, id wire.InstanceID, why string, now time.Time) {
	i := *t.Inst(id)
	t.Event(event.InstancePreempted, id, "%s", why)
	fleet.Leaves(t, i.Worker, &i)
	fleet.Refit(t, i.Worker, i.App, i.Service)
	fleet.Rehold(t, i.Worker, t.Model.Workers[i.Worker], fleet.Used(t)[i.Worker])
	leaving := &wire.Placement{Worker: i.Worker, Incarnation: i.Incarnation, Started: now.Round(0),
		Restarted: i.Restarted}
	i = t.AdvanceFor(i, wire.Failed, now, t.Model.Tier(), wire.CauseDisplaced, why)
	i = t.Advance(i, wire.Requested, now, t.Model.Tier(), why)
	i.Leaving, i.Worker, i.LastExit, i.Unreachable = leaving, "", nil, false
	t.Put(i)
	placement.Pass(t).Victims = append(placement.Pass(t).Victims, id)
}
