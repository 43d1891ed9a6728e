package backend

import (
	"context"

	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Exec implements rest.Backend.
func (b *Backend) Exec(ctx context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error) {
	q.Owner = "site/" + rest.Caller(ctx)
	return workers.Exec(ctx, b.Core, q)
}

// Changes implements rest.Backend.
func (b *Backend) Changes() <-chan struct{} { return b.News.Listen() }
