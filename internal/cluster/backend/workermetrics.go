package backend

import (
	"context"
	"fmt"

	"github.com/verge-edge/verge/internal/cluster/metrics"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/rest"
)

// WorkerMetrics implements rest.Backend.
func (b *Backend) WorkerMetrics(ctx context.Context, cluster, worker string) ([]byte, error) {
	if cluster != b.ClusterName {
		return nil, rest.ElsewhereAt("measuring a worker", cluster)
	}
	page, err := metrics.WorkerPage(ctx, b.Core, worker)
	if err != nil {
		return nil, err
	}
	text, err := obs.Unpack(page.Text)
	if err != nil {
		return nil, fmt.Errorf("the answer of worker %s: %w", worker, err)
	}
	return text, nil
}
