package backend

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/recovery"
	"github.com/verge-edge/verge/internal/root/state"
)

var _ rest.Backups = Backend{}

// Recovery implements rest.Backend.
func (b Backend) Recovery(context.Context) (apiv1.RecoveryView, error) {
	return core.View(b.Core, func(m *state.Model) apiv1.RecoveryView { return recovery.View(m, time.Now()) }), nil
}

// FinishRecovery implements rest.Backend: a cluster is not asked any more, or (name
// "") none is.
func (b Backend) FinishRecovery(ctx context.Context, name string) error {
	return clusters.FinishRecovery(ctx, b.Core, name, time.Now())
}
