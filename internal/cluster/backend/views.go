package backend

import (
	"context"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/edits"
	"github.com/verge-edge/verge/internal/cluster/views"
)

// Applications implements rest.Backend: the part of each that is here.
func (b *Backend) Applications(context.Context) ([]apiv1.AppView, error) {
	return core.View(b.Core, views.Apps), nil
}

// Application implements rest.Backend.
func (b *Backend) Application(ctx context.Context, app string) (apiv1.AppView, error) {
	all, err := b.Applications(ctx)
	if err != nil {
		return apiv1.AppView{}, err
	}
	for _, a := range all {
		if a.Name == app {
			a.Descriptor, err = views.Descriptor(b.Core, app)
			return a, err
		}
	}
	return apiv1.AppView{}, edits.NoApp(b.Core, app)
}
