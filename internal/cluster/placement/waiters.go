package placement

import (
	"cmp"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
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
// runs them (AskAway). Who cannot move, and those of which the next is not ready in
// RoomBy, are ended as in a move (Instance.Leaving): by their stop rule, with their room
// still theirs until the worker says that they are gone. The instance waits for that
// without a note of its own: what leaves is looked at as room that comes, so whoever
// waits for it displaces nobody else. Placing goes by claims too (turn.InTurn), so that
// those that were displaced do not take back what they gave; and as nobody displaces his
// equal, no chain of them comes back to where it began.

// Waiter is an instance that waits for a worker.
type Waiter struct {
	turn.Waiter
	ID wire.InstanceID
}

// Ranks that instances here can have, the highest first; there is always 0.
func Ranks(t *state.Tx) []int {
	ranks := []int{0}
	for _, s := range t.Model.Shares {
		if r := fleet.ClaimOfShare(t, s).Rank; !slices.Contains(ranks, r) {
			ranks = append(ranks, r)
		}
	}
	slices.SortFunc(ranks, func(a, b int) int { return cmp.Compare(b, a) })
	return ranks
}

// Waiters of a rank, in the order in which they are placed.
func Waiters(t *state.Tx, rank int) []Waiter {
	var found []Waiter
	var all []turn.Waiter
	for _, i := range t.Instances() {
		if !Placeable(t, i) {
			continue
		}
		if w := (turn.Waiter{Claim: fleet.ClaimOf(t, i),
			Promised: i.Displaces()}); w.Rank == rank {
			found, all = append(found, Waiter{w, i.ID}), append(all, w)
		}
	}
	out := make([]Waiter, 0, len(found))
	for _, k := range turn.InTurn(all) {
		out = append(out, found[k])
	}
	return out
}

// Queue adds an instance to what is left of a queue: last, but for those of its
// namespace that have a lower priority.
func Queue(left []Waiter, w Waiter) []Waiter {
	left = append(left, w)
	for at, k := len(left)-1, len(left)-2; k >= 0; k-- {
		if left[k].Group == w.Group && left[k].Priority < w.Priority {
			left[at], left[k] = left[k], left[at]
			at = k
		}
	}
	return left
}

// Placeable says whether an instance waits for a worker, and is to have one.
func Placeable(t *state.Tx, i *wire.Instance) bool {
	// What was given back stays ours to place until the root takes it away.
	if i.State != wire.ClusterScheduled && i.State != wire.Failed && i.State != wire.Requested {
		return false
	}
	s := t.Model.Shares[i.App+"."+i.Service]
	if s != nil && s.Spec.Job != nil {
		return instances.Wanted(t, i) && jobs.MayStart(t, i)
	}
	return s != nil && instances.Wanted(t, i) && !rollouts.Stuck(t, i) &&
		(i.State != wire.Failed || !state.RestartNever(s, i))
}

// Explain sets why an instance waits. It displaces nobody any longer.
func Explain(i *wire.Instance, why string) {
	if i.Displaces() {
		i.Cause = ""
	}
	i.Reason = why
}

// Verb is the form of a verb that goes with n.
func Verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// RoomBy is how long who has displaced an instance waits for it to be ready elsewhere.
const RoomBy = 30 * time.Second

// Overdue says whether a move that makes room has had its time.
func Overdue(m *wire.Move, now time.Time) bool {
	return m.Room && max(now.Sub(m.Since), m.Since.Sub(now)) >= RoomBy
}

// Displacement is when an instance was displaced last, and by what; nil for never.
func Displacement(i *wire.Instance) *wire.Transition {
	for k := range slices.Backward(i.History) {
		if h := &i.History[k]; h.To == wire.Failed && h.Because() == wire.CauseDisplaced {
			return h
		}
	}
	return nil
}

// Lower is what instances reserve that others could displace, for the root.
func Lower(t *state.Tx, views []place.WorkerView) []wire.PriorityUse {
	sum, on := map[int]api.Resources{}, map[string]map[int]api.Resources{}
	for _, i := range t.Instances() {
		if fleet.Displaceable(i) {
			r, _ := fleet.Reserves(t, i.Worker, i)
			rank := fleet.ClaimOf(t, i).Rank
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
