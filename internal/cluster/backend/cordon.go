package backend

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// CordonWorker implements rest.Backend.
func (b *Backend) CordonWorker(ctx context.Context, cluster, name string, q rpc.CordonRequest) (wire.Cordon, error) {
	if err := workers.Ours(b.Core, cluster); err != nil {
		return wire.Cordon{}, err
	}
	return workers.Cordon(ctx, b.Core, rpc.Ask{What: rpc.AskCordon, Worker: name,
		Cordon: &rpc.CordonAsk{CordonRequest: q}})
}

// UncordonWorker implements rest.Backend.
func (b *Backend) UncordonWorker(ctx context.Context, cluster, name string) error {
	if err := workers.Ours(b.Core, cluster); err != nil {
		return err
	}
	_, err := workers.Cordon(ctx, b.Core, rpc.Ask{What: rpc.AskUncordon, Worker: name})
	return err
}

// WorkerDrain implements rest.Backend.
func (b *Backend) WorkerDrain(ctx context.Context, cluster, name string) (rpc.DrainView, error) {
	if err := workers.Ours(b.Core, cluster); err != nil {
		return rpc.DrainView{}, err
	}
	return workers.WorkerDrain(ctx, b.Core, name, time.Now())
}
