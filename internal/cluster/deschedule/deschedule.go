package deschedule

import (
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/moving"
	"github.com/verge-edge/verge/internal/cluster/placement"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/wire"
)

// agreements finds the instances that are to move since they are too far from what they
// must be near: of an application one at a time, since where one goes says whether
// another must.
func agreements(t *state.Tx, now time.Time) {
	moving.Pass(t).Broken, moving.Pass(t).Violations = map[wire.InstanceID]string{}, map[wire.InstanceID]string{}
	if len(proximity.Memory(t.Model).Near.Windows) == 0 {
		return
	}
	busy := map[string]bool{}
	for _, i := range t.Instances() {
		if state.UnderWay(i) && i.Moving.For != "" {
			busy[i.App] = true
		}
	}
	for _, key := range records.SortedKeys(t.Model.Shares) {
		s := t.Model.Shares[key]
		if len(s.Spec.Latency) == 0 || busy[s.App] {
			continue
		}
		for _, o := range state.Ordinals(s) {
			i := t.Inst(state.InstanceID(s.App, s.Service, o))
			if i == nil || i.State != wire.Running || !i.Ready || i.Draining || i.Leaving != nil ||
				state.UnderWay(i) || i.Pinned != "" {
				continue
			}
			w := proximity.Memory(t.Model).Near.Windows[i.ID]
			if w == nil || w.Incarnation != i.Incarnation {
				continue
			}
			why := sla.Decide(w.Window, proximity.Rigidness(s), proximity.Memory(t.Model).Near.Moved[key], now)
			if why == "" {
				continue
			}
			if placement.Schedule(t, i, s,
				state.AppendOnce(slices.Clone(instances.Avoided(t, i, s)), i.Worker)).Chosen == "" {
				moving.Pass(t).Violations[i.ID] = proximity.SLAViolation // it stays until another cluster has it
				continue
			}
			moving.Pass(t).Broken[i.ID], busy[s.App] = why, true
			break
		}
	}
}

// lost finds the instances that have a device which their worker does not offer any more:
// they are to move to one that has what they need, here or in another cluster.
func lost(t *state.Tx) {
	for _, key := range records.SortedKeys(t.Model.Shares) {
		s := t.Model.Shares[key]
		if !device.NeededBy(s.Spec) {
			continue
		}
		for _, n := range state.Ordinals(s) {
			i := t.Inst(state.InstanceID(s.App, s.Service, n))
			if i == nil || i.State != wire.Running || i.Draining || i.Leaving != nil || state.UnderWay(i) ||
				moving.Pass(t).Broken[i.ID] != "" {
				continue
			}
			w, told := t.Model.Workers[i.Worker], t.Model.Ups[i.ID]
			switch device := lostDevice(t, i); {
			case device == "" && w != nil && !w.EverHeard && told != nil && told.SLAViolation == proximity.LostDevice:
				moving.Pass(t).Violations[i.ID] = proximity.LostDevice // until this process has heard of the worker
			case device == "":
			case i.Pinned != "" || placement.Schedule(t, i, s,
				state.AppendOnce(slices.Clone(instances.Avoided(t, i, s)), i.Worker)).Chosen == "":
				moving.Pass(t).Violations[i.ID] = proximity.LostDevice
			default:
				moving.Pass(t).Broken[i.ID] = "its device " + device + " is gone from worker " + i.Worker
			}
		}
	}
}

// lostDevice is a device that an instance has and its worker does not offer any more; ""
// for none, and where nothing is heard of the worker.
func lostDevice(t *state.Tx, i *wire.Instance) string {
	w, o := t.Model.Workers[i.Worker], t.Model.Orders[i.Worker+"."+i.ID]
	if w == nil || w.Suspect || !w.EverHeard || o == nil || o.Incarnation != i.Incarnation {
		return ""
	}
	for _, h := range o.Devices {
		if !slices.ContainsFunc(w.Info.Devices, func(d wire.Device) bool { return d.ID == h.ID }) {
			return h.ID
		}
	}
	return ""
}

// Moves begins what is to be moved, and ends what is not any more. It notes in the
// tx which instances have to stay and why, and which wait for their turn.
func Moves(t *state.Tx, now time.Time) {
	agreements(t, now)
	lost(t)
	follow(t, now)
	fleet.Pass(t).Stays, fleet.Pass(t).Waits, placement.Pass(t).Tried = map[wire.InstanceID]string{},
		map[wire.InstanceID]bool{}, map[wire.InstanceID]bool{}
	placement.AskedAway(t, now)
	for _, key := range records.SortedKeys(t.Model.Shares) {
		s := t.Model.Shares[key]
		busy := 0
		var list []*wire.Instance
		for _, o := range state.Ordinals(s) {
			i := t.Inst(state.InstanceID(s.App, s.Service, o))
			if i == nil {
				continue
			}
			i = moving.Aim(t, *i, rollouts.ShareFor(t, i))
			if state.UnderWay(i) || i.Leaving != nil {
				busy++
			} else if moving.Movable(t, i) {
				list = append(list, i)
			}
		}
		for _, i := range list {
			switch {
			case busy >= moving.MovesAtOnce || t.Model.Alone:
				fleet.Pass(t).Waits[i.ID] = true
			case moving.BeginMove(t, *i, rollouts.ShareFor(t, i), now):
				busy++
			}
		}
	}
}
