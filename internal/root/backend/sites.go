package backend

import (
	"context"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/localedit"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

var _ rest.Sites = Backend{}

// LocalChanges implements rest.Backend.
func (b Backend) LocalChanges(context.Context) (apiv1.LocalView, error) {
	return core.View(b.Core, func(m *state.Model) apiv1.LocalView { return localedit.Views(m, "") }), nil
}

// AckConflict implements rest.Backend.
func (b Backend) AckConflict(_ context.Context, id string) error {
	return core.View(b.Core, func(m *state.Model) error {
		for _, cl := range m.Clusters {
			if cl.Conflicts[id] != nil {
				return rest.ElsewhereAt("acknowledging conflict "+id, cl.Name)
			}
		}
		return wire.Problemf(404, "no-such-conflict", "verge local", "there is no such conflict", "%s is not known", id)
	})
}
