package backend

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/recovery"
	"github.com/verge-edge/verge/internal/cluster/uplink"
)

// Recovery implements rest.Backend.
func (b *Backend) Recovery(context.Context) (apiv1.RecoveryView, error) {
	return core.View(b.Core, recovery.View), nil
}

// FinishRecovery implements rest.Backend.
func (b *Backend) FinishRecovery(ctx context.Context, name string) error {
	return uplink.FinishRecovery(ctx, b.Core, name, time.Now())
}
