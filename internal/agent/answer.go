package agent

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// answer serves questions of the cluster.
func (a *Agent) answer(ctx context.Context, q rpc.Ask) (any, error) {
	v, err := a.look(ctx, q)
	var p *wire.Problem
	if err != nil && !errors.As(err, &p) && ctx.Err() == nil {
		err = wire.Problemf(503, "engine-away", "try again in a moment", "the worker cannot answer now",
			"its engine: %v", err)
	}
	return v, err
}

func (a *Agent) look(ctx context.Context, q rpc.Ask) (any, error) {
	switch q.What {
	case rpc.AskLogs:
		const most = 512 << 10 // base64 and JSON still fit one message
		ask := q.Log()
		ask.Max = min(max(ask.Max, 1), most)
		return a.client.Logs(ctx, q.Instance, ask)
	case rpc.AskEntries:
		return a.client.Entries(ctx)
	case rpc.AskMetrics:
		return a.metrics(ctx)
	case rpc.AskVolumes:
		return a.client.Volumes(ctx)
	case rpc.AskRemoveVolume:
		if q.Volume == nil {
			break
		}
		return struct{}{}, a.client.RemoveVolume(ctx, *q.Volume)
	case rpc.AskUpgrade:
		if q.Upgrade == nil {
			break
		}
		return a.upgrading(q.Upgrade), nil
	case rpc.AskTop:
		return a.client.Top(ctx)
	case rpc.AskRoute:
		return a.client.Route(ctx, q.Instance)
	case rpc.AskNet:
		return a.client.Net(ctx)
	case rpc.AskMeasure:
		if q.Measure == nil {
			break
		}
		return a.client.Measure(ctx, *q.Measure)
	case rpc.AskExec:
		if q.Exec == nil {
			return nil, wire.Problemf(400, "bad-request", "upgrade the cluster", "the question cannot be understood", "a step of a session without the step")
		}
		return a.client.Exec(ctx, *q.Exec)
	}
	return nil, wire.Problemf(400, "unknown-question", "upgrade the worker", "the worker cannot answer that", "it does not know the question %q", q.What)
}

const (
	// demandPoll is how long one question for demand is held.
	demandPoll = 5 * time.Minute
	// demandAgain is the pause after an engine did not answer one.
	demandAgain = 10 * time.Second
)

// tellDemand passes on what is asked for here, for as long as somebody asks. What does
// not arrive is not said again: the next one says what is true then.
func (a *Agent) tellDemand(ctx context.Context, conn bus.Conn) {
	for ctx.Err() == nil {
		d, err := a.client.Demand(ctx, demandPoll)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(demandAgain): // it is starting, or of an older version
			}
			continue
		}
		if len(d.Services)+len(d.Answers) == 0 {
			continue
		}
		b, err := json.Marshal(d)
		if err == nil {
			err = conn.Publish(exchange.DemandSubject(a.opts.Name), b)
		}
		if err != nil {
			a.log.Debug("what is asked for here was not told", "error", err)
		}
	}
}
