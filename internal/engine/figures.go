package engine

import (
	"context"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/metrics"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Metrics are the figures of the engine and its router at this moment, as obs.Page
// writes them.
func (e *Engine) Metrics(ctx context.Context) ([]byte, error) {
	if err := e.wait(ctx); err != nil {
		return nil, err
	}
	st := e.deps.router.Stats()
	samples := append(e.samples(), metrics.Proxy(&st)...)
	samples = append(append(samples, e.deps.objects.Samples()...), e.deps.images.Samples()...)
	return obs.Page("engine", append(samples, e.networkSamples()...))
}

// samples are the figures of what runs here.
func (e *Engine) samples() []obs.Sample {
	w := metrics.Worker{
		Starts: e.deps.supervise.Counters.Starts.Load(), FailedStarts: e.deps.supervise.Counters.Failed.Load(),
		Commands: len(e.deps.supervise.Checks.Commands), Sessions: e.deps.sessions.Count(),
		Reserved: e.reserved(), Capacity: e.opts.Config.Capacity, Gateway: e.board.Published(),
	}
	w.Phases, w.Ready, w.Draining, w.Restarts, w.Problems = e.board.Counts()
	return w.Samples()
}

// networkSamples are the metrics of the service network, empty without it.
func (e *Engine) networkSamples() []obs.Sample {
	n := e.deps.network.Overlay()
	if n == nil {
		return nil
	}
	st, err := n.Stats()
	if err != nil {
		e.log.Warn("the figures of the service network are left out", "why", err)
		return nil
	}
	return metrics.Network(&st)
}

// reserved is what instances hold here.
func (e *Engine) reserved() (sum api.Resources) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, in := range e.instances {
		sum = in.Present().AddTo(sum)
	}
	return sum
}

// Top measures what every instance that runs uses.
func (e *Engine) Top(ctx context.Context) (rpc.WorkerTop, error) {
	if err := e.wait(ctx); err != nil {
		return rpc.WorkerTop{}, err
	}
	return e.meter.Measure(ctx)
}

// tasks are those that run.
func (e *Engine) tasks() map[wire.InstanceID]runtime.Task {
	e.mu.Lock()
	defer e.mu.Unlock()
	tasks := make(map[wire.InstanceID]runtime.Task, len(e.instances))
	for id, in := range e.instances {
		if t := in.Task(); t != nil {
			tasks[id] = t
		}
	}
	return tasks
}

// Demand is what clients on this worker asked for since the last answer, see
// stats.Demand.Next.
func (e *Engine) Demand(ctx context.Context, wait time.Duration) (wire.Demand, error) {
	if err := e.wait(ctx); err != nil {
		return wire.Demand{V: wire.Version}, err
	}
	return e.deps.demand.Next(ctx, wait)
}
