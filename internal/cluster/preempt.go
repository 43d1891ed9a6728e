package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/wire"
)

// Preemption: an instance for which no worker has room may displace others, where it has
// the claim to (turn.Claim): those of services with a lower priority in its namespace,
// and those of others over which the operator lets its priority count (wire.Standing).
// Those that serve and for which another worker has room are moved there, make before
// break (Move.Room). Of the others that serve the root is asked whether another cluster
// runs them (askAway). Who cannot move, and those of which the next is not ready in
// roomBy, are ended as in a move (Instance.Leaving): by their stop rule, with their room
// still theirs until the worker says that they are gone. The instance waits for that
// without a note of its own: what leaves is looked at as room that comes, so whoever
// waits for it displaces nobody else. Placing goes by claims too (turn.InTurn), so that
// those that were displaced do not take back what they gave; and as nobody displaces his
// equal, no chain of them comes back to where it began.

// waiter is an instance that waits for a worker.
type waiter struct {
	turn.Waiter
	id wire.InstanceID
}

// ranks that instances here can have, the highest first; there is always 0.
func (t *tx) ranks() []int {
	ranks := []int{0}
	for _, s := range t.m.Shares {
		if r := t.claimOfShare(s).Rank; !slices.Contains(ranks, r) {
			ranks = append(ranks, r)
		}
	}
	slices.SortFunc(ranks, func(a, b int) int { return cmp.Compare(b, a) })
	return ranks
}

// waiters of a rank, in the order in which they are placed.
func (t *tx) waiters(rank int) []waiter {
	var found []waiter
	var all []turn.Waiter
	for _, i := range t.Instances() {
		if !t.placeable(i) {
			continue
		}
		if w := (turn.Waiter{Claim: t.claimOf(i), Promised: strings.HasPrefix(i.Reason, displacing)}); w.Rank == rank {
			found, all = append(found, waiter{w, i.ID}), append(all, w)
		}
	}
	out := make([]waiter, 0, len(found))
	for _, k := range turn.InTurn(all) {
		out = append(out, found[k])
	}
	return out
}

// queue adds an instance to what is left of a queue: last, but for those of its
// namespace that have a lower priority.
func queue(left []waiter, w waiter) []waiter {
	left = append(left, w)
	for at, k := len(left)-1, len(left)-2; k >= 0; k-- {
		if left[k].Group == w.Group && left[k].Priority < w.Priority {
			left[at], left[k] = left[k], left[at]
			at = k
		}
	}
	return left
}

// placeable says whether an instance waits for a worker, and is to have one.
func (t *tx) placeable(i *wire.Instance) bool {
	// What was given back stays ours to place until the root takes it away.
	if i.State != wire.ClusterScheduled && i.State != wire.Failed && i.State != wire.Requested {
		return false
	}
	s := t.m.Shares[i.App+"."+i.Service]
	if s != nil && s.Spec.Job != nil {
		return t.wanted(i) && t.mayStart(i)
	}
	return s != nil && t.wanted(i) && !t.stuck(i) && (i.State != wire.Failed || !restartNever(s, i))
}

// groupOf is the namespace of a share.
func groupOf(s *wire.Share) string { return cmp.Or(s.Namespace, api.DefaultNamespace) }

// claimOf is what an instance may claim; one whose service is gone has the least.
func (t *tx) claimOf(i *wire.Instance) turn.Claim {
	if s := t.m.Shares[i.App+"."+i.Service]; s != nil {
		return t.claimOfShare(s)
	}
	return turn.Claim{}
}

func (t *tx) claimOfShare(s *wire.Share) turn.Claim {
	c := turn.Claim{Group: groupOf(s), Priority: s.Spec.Priority}
	if c.Priority > 0 {
		c.Rank = turn.RankOf(c.Priority, t.standing(c.Group).MaxPriority)
	}
	return c
}

// standing of a namespace, as the root says with its shares. Between two messages from it
// they may differ; then the highest counts for all. What only this site knows of a
// namespace gives it none.
func (t *tx) standing(group string) wire.Standing {
	if t.standings == nil {
		t.standings = map[string]wire.Standing{}
		for _, s := range t.m.Given {
			if s.Standing != (wire.Standing{}) {
				old := t.standings[groupOf(s)]
				t.standings[groupOf(s)] = wire.Standing{Weight: max(old.Weight, s.Standing.Weight), MaxPriority: max(old.MaxPriority, s.Standing.MaxPriority)}
			}
		}
	}
	return t.standings[group]
}

// displaceable says whether an instance may be ended to make room: it runs or is about
// to, alone, and has nothing that it would leave behind.
func displaceable(i *wire.Instance) bool {
	return (i.State == wire.Running || i.State == wire.WorkerScheduled) && i.Worker != "" && i.Pinned == "" && !i.Draining &&
		!i.Unreachable && i.Moving == nil && i.Leaving == nil && i.Room == nil && !state.Asleep(i)
}

// displacing begins the reason of an instance for which others make room.
const displacing = "displaces "

// preempt makes room for an instance that no worker can take (d says why). False where
// that is not for it to ask, or would be no help.
func (t *tx) preempt(i wire.Instance, s *wire.Share, d place.Decision, avoid []string, now time.Time) bool {
	if _, plugin := t.m.schedulerOf(s); s.Spec.Priority <= 0 || plugin != "" { // which alone knows what will do
		return false
	}
	req := request(&i, s)
	req.Scheduler = "" // all of them take what fits, and that alone matters
	req.Avoid = t.shunned(&i, avoid)
	if asksNear(s.Spec) {
		req.Latency = t.thresholds(s, now)
	}
	key := i.App + "." + i.Service
	if next := t.makingRoom().coming.Schedule(key, req); next.Chosen != "" {
		t.claim(next.Chosen, &i, s)
		if !strings.HasPrefix(i.Reason, displacing) {
			i.Reason = "waits until others have left worker " + next.Chosen + " and made room"
		}
		t.Put(i)
		return true
	}
	has := t.claimOf(&i)
	worker, victims := t.roomPlan(key, req, has).Best(i.ID, avoid)
	if worker == "" {
		return false
	}
	moving, asked := 0, 0
	for _, v := range victims {
		by := fmt.Sprintf("%s, which has priority %d", i.ID, has.Priority)
		if v.Group != has.Group {
			by = fmt.Sprintf("an instance of another namespace, whose priority counts as %d against its %d", has.Rank, v.Rank)
		}
		t.Event("worker/"+t.m.Name+"/"+worker, "%s (namespace %s, priority %d) displaces %s (namespace %s, priority %d)", i.ID, has.Group, has.Priority, v.ID, v.Group, v.Priority)
		switch {
		case t.moveAway(v.ID, roomFor+by, now):
			moving++
		case t.askAway(v.ID, roomFor+by, now):
			asked++
		default:
			t.displace(v.ID, "displaced by "+by, now)
		}
	}
	t.claim(worker, &i, s)
	i.Reason = fmt.Sprintf(displacing+"%s on worker %s, which had no room for it", named(victims, has.Group), worker)
	if moving > 0 {
		i.Reason += fmt.Sprintf("; %d of %d first %s on another worker", moving, len(victims), verb(moving, "starts", "start"))
	}
	if asked > 0 {
		i.Reason += fmt.Sprintf("; for %d of %d the root first looks for another cluster", asked, len(victims))
	}
	t.Put(i)
	t.Event("instance/"+i.ID, "%s", i.Reason)
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

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// roomBy is how long who has displaced an instance waits for it to be ready elsewhere.
const roomBy = 30 * time.Second

// moveAway starts an instance that is to make room on another worker, beside the one that
// serves. False where there is none that takes it, or it was tried: then it is to be ended.
func (t *tx) moveAway(id wire.InstanceID, why string, now time.Time) bool {
	i := *t.Inst(id)
	s := t.shareFor(&i)
	if s == nil || i.State != wire.Running || !i.Ready || t.tried[id] {
		return false // nothing would be interrupted
	}
	d := t.whereTo(&i, s)
	if d.Chosen == "" {
		return false
	}
	t.leaves(i.Worker, &i)
	t.refit(i.Worker, i.App, i.Service)
	t.rehold(i.Worker, t.m.Workers[i.Worker], t.used()[i.Worker])
	t.startMove(i, s, d, why, true, now)
	return true
}

// overdue says whether a move that makes room has had its time.
func overdue(m *wire.Move, now time.Time) bool {
	return m.Room && max(now.Sub(m.Since), m.Since.Sub(now)) >= roomBy
}

// displace ends an instance for another. It is placed again where there is room, at
// present or later.
func (t *tx) displace(id wire.InstanceID, why string, now time.Time) {
	i := *t.Inst(id)
	t.Event("instance/"+id, "%s", why)
	t.leaves(i.Worker, &i)
	t.refit(i.Worker, i.App, i.Service)
	t.rehold(i.Worker, t.m.Workers[i.Worker], t.used()[i.Worker])
	leaving := &wire.Placement{Worker: i.Worker, Incarnation: i.Incarnation, Started: now.Round(0), Restarted: i.Restarted}
	i = t.AdvanceFor(i, wire.Failed, now, t.m.Tier(), wire.CauseDisplaced, why)
	i = t.Advance(i, wire.Requested, now, t.m.Tier(), why)
	i.Leaving, i.Worker, i.LastExit, i.Unreachable = leaving, "", nil, false
	t.Put(i)
	t.victims = append(t.victims, id)
}

// displacement is when an instance was displaced last, and by what; nil for never.
func displacement(i *wire.Instance) *wire.Transition {
	for k := range slices.Backward(i.History) {
		if h := &i.History[k]; h.To == wire.Failed && h.Because() == wire.CauseDisplaced {
			return h
		}
	}
	return nil
}

// lower is what instances reserve that others could displace, for the root.
func (t *tx) lower(views []place.WorkerView) []wire.PriorityUse {
	sum, on := map[int]api.Resources{}, map[string]map[int]api.Resources{}
	for _, i := range t.Instances() {
		if displaceable(i) {
			r, _ := t.reserves(i.Worker, i)
			rank := t.claimOf(i).Rank
			sum[rank] = amount.Add(sum[rank], r)
			if on[i.Worker] == nil {
				on[i.Worker] = map[int]api.Resources{}
			}
			on[i.Worker][rank] = amount.Add(on[i.Worker][rank], r)
		}
	}
	var out []wire.PriorityUse
	for p, r := range sum {
		out = append(out, wire.PriorityUse{Priority: p, Used: r})
	}
	slices.SortFunc(out, func(a, b wire.PriorityUse) int { return cmp.Compare(a.Priority, b.Priority) })
	for n := range views {
		v := &views[n]
		if v.Suspect {
			continue
		}
		free, has := amount.Sub(v.Capacity, v.Used), on[v.ID]
		for k := range out {
			if r, some := has[out[k].Priority]; some {
				free = amount.Add(free, r)
			}
			out[k].Room = amount.Larger(out[k].Room, free)
		}
	}
	for len(out) > wire.MaxLower { // the last two are told as one, of the lower priority
		n := len(out)
		out[n-2].Used, out[n-2].Room = amount.Add(out[n-2].Used, out[n-1].Used), out[n-1].Room
		out = out[:n-1]
	}
	return out
}
