package scheduling

import (
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/placement"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/wire"
)

// Place finds a worker for every instance that has none.
func Place(t *state.Tx, now time.Time) {
	if instances.Unsaid(t.Model, now) {
		return // it may run on a worker that has not said yet what it has
	}
	for _, rank := range placement.Ranks(t) {
		for left := placement.Waiters(t, rank); len(left) > 0; {
			left = placeInTurn(t, left, now)
		}
	}
}

// placeInTurn finds workers for those of one rank that wait, those of drf services after
// the others. It returns whom that displaced last, as far as they have the same rank.
func placeInTurn(t *state.Tx, left []placement.Waiter, now time.Time) (displaced []placement.Waiter) {
	contend, rank := map[string][]*wire.Instance{}, left[0].Rank
	heed := func(add func(placement.Waiter)) {
		for _, id := range placement.Pass(t).Victims {
			i := t.Inst(id)
			if w := (placement.Waiter{Waiter: turn.Waiter{Claim: fleet.ClaimOf(t, i)}, ID: id}); w.Rank == rank &&
				placement.Placeable(t, i) {
				add(w)
			}
		}
		placement.Pass(t).Victims = nil // those of a lower rank are found when it is their turn
	}
	for len(left) > 0 {
		w := left[0]
		left = left[1:]
		i := t.Inst(w.ID)
		s := rollouts.ShareFor(t, i)
		if place.IsDRF(state.Scheduler(t.Model, s)) && !w.Promised { // whose turn was when room was made
			contend[i.App+"."+i.Service] = append(contend[i.App+"."+i.Service], i)
			continue
		}
		placeOne(t, *i, s, now)
		heed(func(w placement.Waiter) { left = placement.Queue(left, w) })
	}
	Contend(t, contend, now)
	heed(func(w placement.Waiter) { displaced = append(displaced, w) })
	return displaced
}

// placeOne finds a worker for an instance; false if there is none.
func placeOne(t *state.Tx, i wire.Instance, s *wire.Share, now time.Time) bool {
	if why := proximity.NearWait(t, s, now); why != "" {
		placement.Explain(&i, why)
		t.Put(i)
		return false
	}
	avoid := instances.Avoided(t, &i, s)
	if i.Shadow != nil {
		avoid = state.AppendOnce(slices.Clone(avoid), i.Shadow.Worker)
	}
	d := placement.Schedule(t, &i, s, avoid)
	if advisor.Pass(t).Waiting[i.ID] {
		placement.Explain(&i, d.Reason)
		t.Put(i)
		return false
	}
	if d.Chosen == "" && !instances.Gathering(t.Model, now) && !state.StandIn(&i) &&
		autoscale.Full(t, &i, d.Reason, now) {
		return false // fewer of it are enough here
	}
	if d.Chosen == "" && !instances.Gathering(t.Model, now) && !state.StandIn(&i) && Preempt(t, i, s, d, avoid, now) {
		return false // others make room
	}
	if d.Chosen == "" {
		placement.Unplaced(t, i, d, now)
		return false
	}
	if i.State == wire.Requested {
		i = t.Advance(i, wire.ClusterScheduled, now, t.Model.Tier(), "there is room again")
	}
	i = t.Advance(i, wire.WorkerScheduled, now, t.Model.Tier(), "placed on a worker")
	placement.Assign(t, i, s, d, now)
	return true
}

// Contend places what waits of services with a drf scheduler, by application and
// service: whoever has the smallest share of this cluster is next. What runs counts.
func Contend(t *state.Tx, waiting map[string][]*wire.Instance, now time.Time) {
	if len(waiting) == 0 {
		return
	}
	var total api.Resources
	has := map[string]int{} // instances by service
	for name, w := range t.Model.Workers {
		if !w.Suspect && w.EverHeard {
			total = amount.Add(total, w.Info.Capacity)
		}
		for key, n := range fleet.Used(t)[name].Same {
			has[key] += n
		}
	}
	others := map[string]api.Resources{}
	var list []turn.Contender
	for _, key := range records.SortedKeys(t.Model.Shares) {
		s := t.Model.Shares[key]
		group := state.GroupOf(s)
		used := amount.Times(s.Spec.Resources, has[key])
		if n := len(waiting[key]); n > 0 {
			list = append(list, turn.Contender{
				Service: key, Group: group, Weight: fleet.Standing(t, group).Weight, Priority: s.Spec.Priority,
				Used: used, Demand: s.Spec.Resources, Waiting: n,
			})
		} else {
			others[group] = amount.Add(others[group], used)
		}
	}
	r := turn.NewRound(total, others, list)
	defer func() { fleet.Pass(t).Turn = nil }()
	for n := r.Next(); n >= 0; n = r.Next() {
		key, turn := list[n].Service, r.Turn()
		fleet.Pass(t).Turn = &turn
		i := waiting[key][0]
		waiting[key] = waiting[key][1:]
		if placeOne(t, *i, rollouts.ShareFor(t, i), now) {
			r.Placed()
		} else {
			r.Passed() // another of it may not have failed where there is room
		}
	}
}
