package agent

import (
	"context"
	"errors"

	"github.com/verge-edge/verge/internal/wire"
)

// answer serves questions of the cluster.
func (a *Agent) answer(ctx context.Context, q wire.Ask) (any, error) {
	v, err := a.look(ctx, q)
	var p *wire.Problem
	if err != nil && !errors.As(err, &p) && ctx.Err() == nil {
		err = wire.Problemf(503, "engine-away", "try again in a moment", "the worker cannot answer now",
			"its engine: %v", err)
	}
	return v, err
}

func (a *Agent) look(ctx context.Context, q wire.Ask) (any, error) {
	switch q.What {
	case "logs":
		const most = 512 << 10 // base64 and JSON still fit one message
		ask := q.Log()
		ask.Max = min(max(ask.Max, 1), most)
		return a.client.Logs(ctx, q.Instance, ask)
	case "entries":
		return a.client.Entries(ctx)
	case wire.AskMetrics:
		return a.metrics(ctx)
	case wire.AskVolumes:
		return a.client.Volumes(ctx)
	case wire.AskRemoveVolume:
		if q.Volume == nil {
			break
		}
		return struct{}{}, a.client.RemoveVolume(ctx, *q.Volume)
	case wire.AskUpgrade:
		if q.Upgrade == nil {
			break
		}
		return a.upgrading(q.Upgrade), nil
	case "top":
		return a.client.Top(ctx)
	case wire.AskRoute:
		return a.client.Route(ctx, q.Instance)
	case wire.AskNet:
		return a.client.Net(ctx)
	case wire.AskMeasure:
		if q.Measure == nil {
			break
		}
		return a.client.Measure(ctx, *q.Measure)
	case "exec":
		if q.Exec == nil {
			return nil, wire.Problemf(400, "bad-request", "upgrade the cluster", "the question cannot be understood", "a step of a session without the step")
		}
		return a.client.Exec(ctx, *q.Exec)
	}
	return nil, wire.Problemf(400, "unknown-question", "upgrade the worker", "the worker cannot answer that", "it does not know the question %q", q.What)
}
