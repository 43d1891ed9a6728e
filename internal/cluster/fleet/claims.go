package fleet

import (
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/wire"
)

// ClaimOf is what an instance may claim; one whose service is gone has the least.
func ClaimOf(t *state.Tx, i *wire.Instance) turn.Claim {
	if s := t.Model.Shares[i.App+"."+i.Service]; s != nil {
		return ClaimOfShare(t, s)
	}
	return turn.Claim{}
}

// ClaimOfShare is what one instance of a service asks for, as its namespace and priority see it.
func ClaimOfShare(t *state.Tx, s *wire.Share) turn.Claim {
	c := turn.Claim{Group: state.GroupOf(s), Priority: s.Spec.Priority}
	if c.Priority > 0 {
		c.Rank = turn.RankOf(c.Priority, Standing(t, c.Group).MaxPriority)
	}
	return c
}

// Standing of a namespace, as the root says with its shares. Between two messages from it
// they may differ; then the highest counts for all. What only this site knows of a
// namespace gives it none.
func Standing(t *state.Tx, group string) wire.Standing {
	if Pass(t).standings == nil {
		Pass(t).standings = map[string]wire.Standing{}
		for _, s := range t.Model.FromRoot {
			if s.Standing != (wire.Standing{}) {
				old := Pass(t).standings[state.GroupOf(s)]
				Pass(t).standings[state.GroupOf(s)] = wire.Standing{Weight: max(old.Weight, s.Standing.Weight),
					MaxPriority: max(old.MaxPriority, s.Standing.MaxPriority)}
			}
		}
	}
	return Pass(t).standings[group]
}

// Displaceable says whether an instance may be ended to make room: it runs or is about
// to, alone, and has nothing that it would leave behind.
func Displaceable(i *wire.Instance) bool {
	return (i.State == wire.Running || i.State == wire.WorkerScheduled) && i.Worker != "" && i.Pinned == "" &&
		!i.Draining &&
		!i.Unreachable && i.Moving == nil && i.Leaving == nil && i.Room == nil && !state.Asleep(i)
}
