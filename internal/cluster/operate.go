package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/wire"
)

// Apply implements rest.Backend: a change that is made at this site.
func (b backend) Apply(ctx context.Context, source []byte, dryRun bool) (wire.ApplyResult, error) {
	var agreed hooks.Agreed
	if !dryRun {
		var err error
		if agreed, err = b.gateApply(ctx, source); err != nil {
			return wire.ApplyResult{}, err
		}
	}
	res, err := b.applyAgreed(ctx, source, dryRun, agreed, time.Now())
	res.Warnings = append(agreed.Warnings, res.Warnings...)
	return res, err
}

// Delete implements rest.Backend: the end of an application at this site.
func (b backend) Delete(ctx context.Context, app string) error {
	if _, err := b.gate(ctx, wire.GateDelete, app, true, "its end at this site is asked for"); err != nil {
		return err
	}
	return b.deleteLocal(ctx, app, time.Now())
}

// Scale implements rest.Backend: how many instances run at this site.
func (b backend) Scale(ctx context.Context, app, service string, replicas int) (wire.ApplyResult, error) {
	warnings, err := b.gate(ctx, wire.GateScale, app, true, fmt.Sprintf("%s is to have %s at this site", service, wire.Count(replicas, "replica")))
	if err != nil {
		return wire.ApplyResult{}, err
	}
	res, err := b.scaleLocal(ctx, app, service, replicas, time.Now())
	res.Warnings = append(warnings, res.Warnings...)
	return res, err
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
	if _, err := b.gate(ctx, wire.GateUndo, app, false, strings.TrimSpace("what was changed at this site is to be taken back "+service)); err != nil {
		return err
	}
	return b.dropLocal(ctx, app, service, time.Now())
}

// AckConflict implements rest.Backend.
func (b backend) AckConflict(ctx context.Context, id string) error {
	return b.ackConflict(ctx, id, time.Now())
}

// Restart implements rest.Backend.
func (b backend) Restart(ctx context.Context, app string, q wire.RestartRequest) (wire.RestartResult, error) {
	if _, err := b.gate(ctx, wire.GateRestart, app, true, "what runs of it at this site is to be started again"); err != nil {
		return wire.RestartResult{}, err
	}
	return b.restartLocal(ctx, app, q, time.Now())
}
