package root

import (
	"context"
	"fmt"

	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/state"
)

// RemoveCluster implements backend.Node.
func (r *Root) RemoveCluster(ctx context.Context, name string, force bool) error {
	r.joining.Lock()
	defer r.joining.Unlock()
	if err := clusters.RemoveCluster(ctx, r.Core, name, force, r.clock.Now()); err != nil {
		return err
	}
	clusters.StopServing(r.Core, name)
	return clusters.NotShut(r.server.RemoveCluster(name))
}

// RevokeCluster implements backend.Node.
func (r *Root) RevokeCluster(ctx context.Context, name string) error {
	r.joining.Lock()
	defer r.joining.Unlock()
	revoked, err := clusters.RevokeCluster(ctx, r.Core, name, r.clock.Now())
	if revoked {
		if err := clusters.NotShut(r.server.RevokeCluster(name)); err != nil {
			return err
		}
	}
	return err
}

// reconcileGone does at a start what a crash may have kept from being done, and
// forgets what is of no meaning any more.
func (r *Root) reconcileGone(ctx context.Context) error {
	for _, name := range r.server.Clusters() {
		cl := r.M.Clusters[name]
		var err error
		switch {
		case cl == nil:
			err = r.server.RemoveCluster(name)
		case !cl.Revoked.IsZero():
			err = r.server.RevokeCluster(name)
		}
		if err != nil {
			return err
		}
	}
	return core.View(r.Core, func(m *state.Model) error {
		t, now := m.Begin(), r.clock.Now()
		for hash, g := range m.Gone {
			if now.After(g.Until) {
				state.GoneTable.Put(t.Rows, hash, nil)
			}
		}
		if _, _, err := r.Keeper.Parts(ctx, t); err != nil {
			return fmt.Errorf("forgetting old revocations: %w", err)
		}
		return nil
	})
}
