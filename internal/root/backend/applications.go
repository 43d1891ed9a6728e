package backend

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/counters"
	"github.com/verge-edge/verge/internal/root/edits"
	"github.com/verge-edge/verge/internal/root/planner"
	"github.com/verge-edge/verge/internal/root/rehearsal"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/status"
	"github.com/verge-edge/verge/internal/root/views"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

var _ rest.Applications = Backend{}

// Apply implements rest.Backend. What it accepts is durable when it returns.
func (b Backend) Apply(ctx context.Context, source []byte, dryRun bool) (apiv1.ApplyResult, error) {
	spec, warnings, err := edits.Parsed(source)
	if err != nil {
		return apiv1.ApplyResult{}, err
	}
	var agreed hooks.Agreed
	if !dryRun {
		if agreed, err = b.gateApply(ctx, spec, source); err != nil {
			return apiv1.ApplyResult{}, err
		}
		warnings = append(warnings, agreed.Warnings...)
	}
	var res apiv1.ApplyResult
	err = core.Update(ctx, b.Core, time.Now(), func(t *state.Tx) (err error) {
		var app *record.Application
		if app, res, err = edits.Accept(t.Model, access.From(ctx), spec, source, t.Now); err != nil {
			return err
		}
		if err := agreed.Still(res); err != nil {
			return err
		}
		res.Warnings = append(warnings, res.Warnings...)
		old := t.Model.Apps[app.Name]
		switch {
		case dryRun:
			return nil
		case res.Change != "unchanged":
			app.By = rest.Caller(ctx)
			t.Event(event.ApplicationApplied, app.Name, "%s, revision %d", res.Change, res.Revision)
			return edits.PutApp(t, app)
		case old.Recovered == nil && old.Unclaimed == nil:
			return nil
		}
		// The same, but as somebody wrote it.
		next := *old
		next.Source, next.Recovered, next.Unclaimed = string(source), nil, nil
		return edits.PutApp(t, &next)
	})
	return res, err
}

// Delete implements rest.Backend.
func (b Backend) Delete(ctx context.Context, name string) error {
	if _, err := b.gate(ctx, wire.GateDelete, name, "its end is asked for"); err != nil {
		return err
	}
	return core.Update(ctx, b.Core, time.Now(), func(t *state.Tx) error {
		app := t.Model.Apps[name]
		if app == nil {
			return edits.NoApp(name)
		}
		if !app.Deleting.IsZero() {
			return nil
		}
		next := *app
		next.Deleting = t.Now
		next.Changes += counters.Changes(app.Spec, nil)
		t.Event(event.ApplicationDeleting, name, "deleting")
		return edits.PutApp(t, &next)
	})
}

// Applications implements rest.Backend.
func (b Backend) Applications(context.Context) ([]apiv1.AppView, error) {
	return views.Apps(b.Core), nil
}

// Application implements rest.Backend.
func (b Backend) Application(_ context.Context, name string) (apiv1.AppView, error) {
	return core.View2(b.Core, func(m *state.Model) (apiv1.AppView, error) {
		app := m.Apps[name]
		if app == nil {
			return apiv1.AppView{}, edits.NoApp(name)
		}
		v := status.Application(m, app)
		v.Descriptor = app.Source
		return v, nil
	})
}

// Plan implements rest.Backend: what an apply would do. Nothing is changed.
func (b Backend) Plan(ctx context.Context, source []byte) (apiv1.Plan, error) {
	spec, warnings, err := edits.Parsed(source)
	if err != nil {
		return apiv1.Plan{}, err
	}
	b.Planning.Lock()
	defer b.Planning.Unlock()
	now := time.Now()
	r, out, err := planner.Rehearse(ctx, b.Core, func(m *state.Model) (*record.Application, apiv1.ApplyResult, error) {
		app, res, err := edits.Accept(m, access.From(ctx), spec, source, now)
		if err == nil {
			err = edits.Storable(m, app)
		}
		res.Warnings = append(warnings, res.Warnings...)
		return app, res, err
	}, now)
	if err != nil {
		return apiv1.Plan{}, err
	}
	if err := r.Run(ctx, func(ctx context.Context, questions map[string]rpc.PlanAsk) map[string]*rehearsal.Site {
		return planner.AskPlans(ctx, b.Core, questions)
	}); err != nil {
		return apiv1.Plan{}, err
	}
	r.Close(&out)
	return out, nil
}
