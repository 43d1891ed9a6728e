package cluster

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Apply implements rest.Backend: a change that is made at this site.
func (b backend) Apply(ctx context.Context, source []byte, dryRun bool) (wire.ApplyResult, error) {
	return b.applyLocal(ctx, source, dryRun, time.Now())
}

// Delete implements rest.Backend: the end of an application at this site.
func (b backend) Delete(ctx context.Context, app string) error {
	return b.deleteLocal(ctx, app, time.Now())
}

// Scale implements rest.Backend: how many instances run at this site.
func (b backend) Scale(ctx context.Context, app, service string, replicas int) (wire.ApplyResult, error) {
	return b.scaleLocal(ctx, app, service, replicas, time.Now())
}

// LocalChanges implements rest.Backend.
func (b backend) LocalChanges(context.Context) (wire.LocalView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.m.localViews("")
	for n := range v.Conflicts {
		v.Conflicts[n].Spec = b.m.conflicts[v.Conflicts[n].ID].Local.Spec
	}
	return v, nil
}

// DropLocal implements rest.Backend.
func (b backend) DropLocal(ctx context.Context, app, service string) error {
	return b.dropLocal(ctx, app, service, time.Now())
}

// AckConflict implements rest.Backend.
func (b backend) AckConflict(ctx context.Context, id string) error {
	return b.ackConflict(ctx, id, time.Now())
}

// Restart implements rest.Backend.
func (b backend) Restart(ctx context.Context, app string, q wire.RestartRequest) (wire.RestartResult, error) {
	return b.restartLocal(ctx, app, q, time.Now())
}
