package workers

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/wire"
)

// Grant is SetGateway at the cluster itself.
func Grant(ctx context.Context, c *core.Core, name string, g wire.GatewayGrant, by string,
	now time.Time) (wire.GatewayGrant, error) {
	err := core.Update(ctx, c, now, func(t *state.Tx) error {
		w := t.Model.Workers[name]
		if w == nil {
			return NoWorker(c.ClusterName, name)
		}
		if w.Gateway.May() == g.Allowed {
			if w.Gateway != nil {
				g = *w.Gateway
			}
			return nil
		}
		g.By, g.At = by, now.Round(0)
		next := w.WorkerRecord
		next.Gateway = &g
		state.WorkerTable.Put(t.Rows, name, &next)
		what := "may be a gateway with TLS"
		if !g.Allowed {
			what = "may be no gateway with TLS any more"
		}
		if by != "" {
			what += ", by " + by
		}
		t.Event(event.WorkerGateway, event.WorkerName(c.ClusterName, name), "%s", what)
		return nil
	})
	if err == nil {
		loop.Poke(c.UpChanged) // a cluster without gateways is given no certificates
		core.Nudge(c, name)
	}
	return g, err
}
