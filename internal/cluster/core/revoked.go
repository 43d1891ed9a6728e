package core

import (
	"cmp"
	"context"
	"slices"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/wire"
)

// MaxGone bounds the keys that a cluster remembers not to count any more. Beyond
// it those are forgotten whose certificates are of no use soonest.
const MaxGone = 4096

// ForgetGone forgets a revoked key whose certificate has expired.
func ForgetGone(t *state.Tx, hash string) { setGone(t, hash, nil, nil) }

func setGone(t *state.Tx, hash string, g *enroll.Gone, r *wire.Revocation) {
	state.GoneTable.Put(t.Rows, hash, g)
	state.RevokedTable.Put(t.Rows, hash, r)
	state.UpRevokedTable.Put(t.Rows, hash, r)
}

// Note stores, with what else t says of its holder, that a key is revoked, for this cluster,
// its workers and the root. The caller has the model.
func Note(ctx context.Context, c *Core, t *state.Tx, hash string, g *enroll.Gone) error {
	if len(c.M.Gone) >= MaxGone {
		full := slices.MinFunc(records.SortedKeys(c.M.Gone), func(a, b string) int {
			return cmp.Or(c.M.Gone[a].Until.Compare(c.M.Gone[b].Until), cmp.Compare(a, b))
		})
		ForgetGone(t, full)
	}
	setGone(t, hash, g, &wire.Revocation{V: wire.Version, Until: g.Until, Cluster: c.ClusterName})
	if err := c.Keeper.Whole(ctx, t); err != nil {
		return Unstored(err)
	}
	c.Revoked.Set(c.M.Revoked())
	NudgeAll(c)
	loop.Poke(c.UpChanged)
	return nil
}

// NudgeAll asks all workers for a report, with which they fetch what is new. The
// caller has the model.
func NudgeAll(c *Core) {
	for name := range c.M.Workers {
		Nudge(c, name)
	}
}
