package backend

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/consult"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
)

// Plugins implements rest.Backend.
func (b *Backend) Plugins(context.Context) ([]apiv1.PluginView, error) {
	return core.View(b.Core, func(*state.Model) []apiv1.PluginView {
		return consult.PluginViews(b.Core, time.Now())
	}), nil
}
