package answer

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/demand"
	"github.com/verge-edge/verge/internal/cluster/metrics"
	"github.com/verge-edge/verge/internal/cluster/planner"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Answer serves the root's questions, as far as the operator lets details leave.
func Answer(ctx context.Context, c *core.Core, q rpc.Ask) (any, error) {
	if q.What == rpc.AskHoldings {
		return uplink.Holdings(c, q.After)
	}
	if q.What == rpc.AskPlan { // it keeps details to itself, see becomes
		return planner.PlanShares(ctx, c, q.Plan, q.Hold(), time.Now())
	}
	if !core.View(c, func(m *state.Model) bool { return m.Details }) {
		return nil, wire.Problemf(403, "kept-private",
			rest.ContextOf(c.ClusterName)+"; or its operator starts it with --share-details",
			"the cluster does not answer that", "cluster %s keeps its details to itself", c.ClusterName)
	}
	switch q.What {
	case rpc.AskLogs:
		return views.Logs(ctx, c, q)
	case rpc.AskExplain:
		return views.Explain(ctx, c, q.Instance)
	case rpc.AskWorkers:
		return views.Workers(c), nil
	case rpc.AskEntries:
		return workers.Entries(ctx, c, q.Worker)
	case rpc.AskMetrics:
		return metrics.WorkerPage(ctx, c, q.Worker)
	case rpc.AskRoute, rpc.AskNet:
		return workers.RoutesPage(ctx, c, q)
	case rpc.AskVolumes:
		return workers.Volumes(ctx, c, q.Worker)
	case rpc.AskScale:
		return demand.ScaleReport(c, q.Instance)
	case rpc.AskTop:
		return views.TopInstances(ctx, c, q.Worker, q.Instance), nil
	case rpc.AskTopWorkers:
		return views.TopWorkers(ctx, c, q.Worker), nil
	case rpc.AskExec:
		if q.Exec == nil {
			break
		}
		step := *q.Exec
		step.Owner = "root/" + step.Owner
		return workers.Exec(ctx, c, step)
	case rpc.AskCordon, rpc.AskUncordon:
		if q.Cordon == nil {
			break
		}
		return workers.Cordon(access.With(ctx, access.Who{Name: "root/" + q.Cordon.By}), c, q)
	case rpc.AskDrain:
		return workers.WorkerDrain(ctx, c, q.Worker, time.Now())
	}
	return nil, wire.Problemf(400, "unknown-question", "upgrade the cluster", "the cluster cannot answer that",
		"cluster %s does not know the question %q", c.ClusterName, q.What)
}
