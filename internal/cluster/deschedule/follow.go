package deschedule

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/moving"
	"github.com/verge-edge/verge/internal/cluster/placement"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// LookFlows judges whether replicas are where the requests are, and says whether one is
// to be moved now.
func LookFlows(m *state.Model, now time.Time) (move bool) {
	if len(proximity.Memory(m).Flows) == 0 {
		return false
	}
	var t *state.Tx // made for the first that is due
	looked := false
	defer func() {
		if looked {
			proximity.Memory(m).Entering = proximity.Told(m, now)
		}
	}()
	for _, key := range records.SortedKeys(proximity.Memory(m).Flows) {
		f, s := proximity.Memory(m).Flows[key], autoscale.Delegated(m, key)
		if now.Sub(f.Looked) < proximity.FollowEvery {
			continue
		}
		f.Looked, looked = now, true
		if f.Forget(now); len(f.At) == 0 || !proximity.Leads(m, key) {
			delete(proximity.Memory(m).Flows, key)
			continue
		}
		if s == nil { // none of it runs here
			f.Better = proximity.Advantage{}
			continue
		}
		if t == nil {
			t = m.Begin()
			t.Now = now
		}
		id, why := misplaced(t, key, s)
		switch {
		case id == "":
			f.Better = proximity.Advantage{}
			continue
		case f.Better.ID == "":
			f.Better.Since = now
		}
		f.Better.ID, f.Better.Why = id, why
		move = move || proximity.Follows(m, key, now) != ""
	}
	return move
}

// misplaced is the replica of a service that is of the least use where it is, if it would
// be of so much more elsewhere that it pays to move it, and why; "" for none.
func misplaced(t *state.Tx, key string, s *wire.Share) (id wire.InstanceID, why string) {
	all := proximity.Traffic(t, key, "")
	if all == nil {
		return "", ""
	}
	on := map[string]*wire.Instance{}
	for _, o := range state.Ordinals(s) {
		i := t.Inst(state.InstanceID(s.App, s.Service, o))
		if i == nil {
			continue
		}
		if i.Moving != nil || i.Leaving != nil {
			return "", "" // where it is then will show
		}
		if i.State == wire.Running && i.Ready && !i.Draining && i.Pinned == "" && on[i.Worker] == nil {
			on[i.Worker] = i
		}
	}
	views := fleet.Index(t).Views(key)
	now, ok := place.Expected(views, *all)
	if !ok {
		return "", ""
	}
	least, harm := "", time.Duration(math.MaxInt64)
	for _, name := range records.SortedKeys(on) {
		without := *all
		without.Replicas = maps.Clone(all.Replicas)
		without.Replicas[name]--
		if d, ok := place.Expected(views, without); !ok || d < harm {
			least = name
			if harm = d; !ok { // nobody would answer: it is the only one
				break
			}
		}
	}
	i := on[least]
	if i == nil {
		return "", ""
	}
	d := placement.Schedule(t, i, s, state.AppendOnce(slices.Clone(instances.Avoided(t, i, s)), i.Worker))
	if d.Chosen == "" || len(d.Ranked) == 0 || d.Request.Traffic == nil {
		return "", ""
	}
	then := time.Duration(d.Ranked[0].Score * 1e6)
	if now-then < proximity.FollowSaves || float64(now-then) < proximity.FollowGain*float64(now) {
		return "", ""
	}
	return i.ID, fmt.Sprintf("requests come from elsewhere now: expected %s each, %s with it on %s",
		proximity.Shortly(now), proximity.Shortly(then), d.Chosen)
}

// follow finds the replicas that are to move to where the requests are.
func follow(t *state.Tx, now time.Time) {
	for _, key := range records.SortedKeys(proximity.Memory(t.Model).Flows) {
		id := proximity.Follows(t.Model, key, now)
		if i := t.Inst(id); i != nil && !state.UnderWay(i) && i.State == wire.Running && i.Pinned == "" {
			moving.Pass(t).Broken[id] = proximity.Memory(t.Model).Flows[key].Better.Why
		}
	}
}
