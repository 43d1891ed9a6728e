package backend

import (
	"context"
	"errors"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/edits"
	"github.com/verge-edge/verge/internal/root/namespaces"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

var _ rest.Hooks = Backend{}

// gate asks the hooks that are to be asked before something is done with an
// application that is there. It is called outside core.Do.
func (b Backend) gate(ctx context.Context, operation, name, what string) (warnings []string, err error) {
	app := core.View(b.Core, func(m *state.Model) *record.Application { return m.Apps[name] })
	if app == nil {
		return nil, nil // which the operation itself says
	}
	return b.askHooks(ctx, wire.HookData{Operation: operation, Namespace: wire.NamespaceOf(app.Spec),
		Application: name, Revision: app.Revision, What: what})
}

// gateApply asks the hooks that are to be asked before a descriptor becomes what counts,
// if it would. It is called outside core.Do.
func (b Backend) gateApply(ctx context.Context, spec *api.Application, source []byte) (a hooks.Agreed, err error) {
	if !b.HookKeeper.Asks(wire.GateApply, wire.NamespaceOf(spec)) {
		return a, nil
	}
	res, err := core.View2(b.Core, func(m *state.Model) (res apiv1.ApplyResult, err error) {
		now := time.Now()
		if err = core.Reload(ctx, b.Core, now); err != nil {
			return res, core.Unstored(err)
		}
		_, res, err = edits.Accept(m, access.From(ctx), spec, source, now)
		return res, err
	})
	if err != nil || res.Change == "unchanged" {
		return a, err
	}
	a.Asked, a.Revision = true, res.Revision
	a.Warnings, err = b.askHooks(ctx, wire.HookData{
		Operation: wire.GateApply, Namespace: wire.NamespaceOf(spec), Application: spec.Application,
		Revision: res.Revision, What: res.Change, Descriptor: string(source),
	})
	return a, err
}

func (b Backend) askHooks(ctx context.Context, d wire.HookData) ([]string, error) {
	d.Subject, d.By = "application/"+d.Application, rest.Caller(ctx)
	warnings, err := b.HookKeeper.Ask(ctx, d)
	for _, w := range warnings {
		b.EventRing.Note(time.Now(), event.ApplicationGate, d.Application, w)
	}
	return warnings, err
}

// SetHook implements rest.Backend.
func (b Backend) SetHook(ctx context.Context, namespace, name string, r apiv1.HookRequest) (apiv1.HookView, error) {
	if !enroll.IsName(name) {
		return apiv1.HookView{}, wire.Problemf(422, "bad-name", "letters a-z, digits and -, at most 63",
			"this cannot be the name of a hook", "%q", name)
	}
	if err := b.hasSpace(namespace); err != nil {
		return apiv1.HookView{}, err
	}
	v, err := b.HookKeeper.Set(ctx, namespace, name, rest.Caller(ctx), r)
	loop.Poke(b.Wake) // clusters are told whether they are to ask
	if err == nil {
		b.EventRing.Note(time.Now(), event.HookSet, wire.HookLabel(v.Namespace, v.Name), "set")
	}
	return v, err
}

// hasSpace: a hook is of a namespace that is there, or of all.
func (b Backend) hasSpace(namespace string) error {
	return core.View(b.Core, func(m *state.Model) error {
		if namespace != "" && !namespaces.Has(m, namespace) {
			return namespaces.NotFound(namespace)
		}
		return nil
	})
}

// RotateHook implements rest.Backend.
func (b Backend) RotateHook(ctx context.Context, namespace, name, secret string, overlapSeconds int) (apiv1.HookView,
	error) {
	v, err := b.HookKeeper.Rotate(ctx, namespace, name, rest.Caller(ctx), secret, overlapSeconds)
	if err == nil {
		b.EventRing.Note(time.Now(), event.HookRotated, wire.HookLabel(v.Namespace, v.Name), "has another secret")
	}
	return v, err
}

// RemoveHook implements rest.Backend.
func (b Backend) RemoveHook(ctx context.Context, namespace, name string) (apiv1.HookView, error) {
	v, err := b.HookKeeper.Remove(ctx, namespace, name)
	loop.Poke(b.Wake)
	if err == nil {
		b.EventRing.Note(time.Now(), event.HookRemoved, wire.HookLabel(v.Namespace, v.Name),
			"removed, with "+wire.Count(v.Waiting, "notice")+" that waited")
	}
	return v, err
}

// PauseHook implements rest.Backend.
func (b Backend) PauseHook(ctx context.Context, namespace, name string) (apiv1.HookView, error) {
	by := rest.Caller(ctx)
	if by == "" {
		return apiv1.HookView{}, errors.New("nobody asks")
	}
	defer loop.Poke(b.Wake)
	return b.HookKeeper.Pause(ctx, namespace, name, by)
}

// ResumeHook implements rest.Backend.
func (b Backend) ResumeHook(ctx context.Context, namespace, name string) (apiv1.HookView, error) {
	defer loop.Poke(b.Wake)
	return b.HookKeeper.Resume(ctx, namespace, name)
}

// TestHook implements rest.Backend.
func (b Backend) TestHook(ctx context.Context, namespace, name string) (apiv1.HookTested, error) {
	return b.HookKeeper.Test(ctx, namespace, name, rest.Caller(ctx))
}

// Hooks implements rest.Backend.
func (b Backend) Hooks(context.Context) ([]apiv1.HookView, error) {
	return b.HookKeeper.Hooks("", true), nil
}
