package backend

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/edits"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/wire"
)

// Apply implements rest.Backend: a change that is made at this site.
func (b *Backend) Apply(ctx context.Context, source []byte, dryRun bool) (apiv1.ApplyResult, error) {
	var agreed hooks.Agreed
	if !dryRun {
		var err error
		if agreed, err = b.gateApply(ctx, source); err != nil {
			return apiv1.ApplyResult{}, err
		}
	}
	res, err := edits.ApplyAgreed(ctx, b.Core, source, dryRun, agreed, time.Now())
	res.Warnings = append(agreed.Warnings, res.Warnings...)
	return res, err
}

// Delete implements rest.Backend: the end of an application at this site.
func (b *Backend) Delete(ctx context.Context, app string) error {
	if _, err := b.gate(ctx, wire.GateDelete, app, true, "its end at this site is asked for"); err != nil {
		return err
	}
	return edits.DeleteLocal(ctx, b.Core, app, time.Now())
}

// Scale implements rest.Backend: how many instances run at this site.
func (b *Backend) Scale(ctx context.Context, app, service string, replicas int) (apiv1.ApplyResult, error) {
	warnings, err := b.gate(ctx, wire.GateScale, app, true,
		fmt.Sprintf("%s is to have %s at this site", service, wire.Count(replicas, "replica")))
	if err != nil {
		return apiv1.ApplyResult{}, err
	}
	res, err := edits.ScaleLocal(ctx, b.Core, app, service, replicas, time.Now())
	res.Warnings = append(warnings, res.Warnings...)
	return res, err
}

// LocalChanges implements rest.Backend.
func (b *Backend) LocalChanges(context.Context) (apiv1.LocalView, error) {
	return core.View2(b.Core, func(m *state.Model) (apiv1.LocalView, error) {
		v := localedit.Views(m, "")
		for n := range v.Conflicts {
			v.Conflicts[n].Spec = localedit.ConflictTable.Rows(m.DB)[v.Conflicts[n].ID].Local.Spec
		}
		return v, nil
	})
}

// DropLocal implements rest.Backend.
func (b *Backend) DropLocal(ctx context.Context, app, service string) error {
	if _, err := b.gate(ctx, wire.GateUndo, app, false,
		strings.TrimSpace("what was changed at this site is to be taken back "+service)); err != nil {
		return err
	}
	return edits.DropLocal(ctx, b.Core, app, service, time.Now())
}

// AckConflict implements rest.Backend.
func (b *Backend) AckConflict(ctx context.Context, id string) error {
	return edits.AckConflict(ctx, b.Core, id, time.Now())
}

// Restart implements rest.Backend.
func (b *Backend) Restart(ctx context.Context, app string, q apiv1.RestartRequest) (apiv1.RestartResult, error) {
	if _, err := b.gate(ctx, wire.GateRestart, app, true,
		"what runs of it at this site is to be started again"); err != nil {
		return apiv1.RestartResult{}, err
	}
	return edits.RestartLocal(ctx, b.Core, app, q, time.Now())
}
