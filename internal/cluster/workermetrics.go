package cluster

import (
	"context"
	"fmt"

	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// workerPage asks a worker for its figures. Nothing is kept: they are those of the
// moment, or there are none.
func (c *core) workerPage(ctx context.Context, worker string) (page wire.MetricsPage, err error) {
	if !c.hasWorker(worker) {
		return page, wire.Problemf(404, "no-such-worker", "verge get workers", "there is no such worker", "%s is not in cluster %s", worker, c.name)
	}
	err = c.askWorker(ctx, worker, wire.Ask{What: wire.AskMetrics, Worker: worker}, "the worker cannot be measured now", &page)
	if err == nil {
		err = wire.CheckVersion("the figures of worker "+worker, page.V)
	}
	return page, err
}

// WorkerMetrics implements rest.Backend.
func (b backend) WorkerMetrics(ctx context.Context, cluster, worker string) ([]byte, error) {
	if cluster != b.name {
		return nil, rest.ElsewhereAt("measuring a worker", cluster)
	}
	page, err := b.workerPage(ctx, worker)
	if err != nil {
		return nil, err
	}
	text, err := obs.Unpack(page.Text)
	if err != nil {
		return nil, fmt.Errorf("the answer of worker %s: %w", worker, err)
	}
	return text, nil
}
