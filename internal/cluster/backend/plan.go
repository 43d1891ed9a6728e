package backend

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/planner"
)

// Plan implements rest.Backend: what an apply at this site would do.
func (b *Backend) Plan(ctx context.Context, source []byte) (apiv1.Plan, error) {
	return planner.PlanLocal(ctx, b.Core, source, time.Now())
}
