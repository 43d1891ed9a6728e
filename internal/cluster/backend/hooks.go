package backend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/edits"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// gate asks the hooks of this cluster that are to be asked before something is done here
// with an application. edit: it is a change that the root might have to make. It takes the
// model itself.
func (b *Backend) gate(ctx context.Context, operation, app string, edit bool, what string) (warnings []string,
	err error) {
	d := wire.HookData{Operation: operation, Application: app, What: what}
	asks := false
	core.Do(b.Core, func(m *state.Model) {
		d.Namespace, d.Revision = m.Namespace(app), localedit.Revision(m, app)
		asks = b.HookKeeper.Asks(operation, d.Namespace) && d.Namespace != ""
		if asks && edit {
			err = edits.MayEdit(ctx, b.Core, app, time.Now())
		}
	})
	if err != nil || !asks { // the operation says it if there is no such application
		return nil, err
	}
	return b.askHooks(ctx, d)
}

// gateApply asks before a descriptor becomes what counts here, if it would. It takes the
// model itself.
func (b *Backend) gateApply(ctx context.Context, source []byte) (a hooks.Agreed, err error) {
	if !b.HookKeeper.Any() {
		return a, nil
	}
	spec, _, err := localedit.Parse(source)
	if err != nil || !b.HookKeeper.Asks(wire.GateApply, wire.NamespaceOf(spec)) {
		return a, err
	}
	res, err := edits.ApplyLocal(ctx, b.Core, source, true, time.Now())
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

func (b *Backend) askHooks(ctx context.Context, d wire.HookData) ([]string, error) {
	d.Subject, d.Cluster, d.By = "application/"+d.Application, b.ClusterName, rest.Caller(ctx)
	warnings, err := b.HookKeeper.Ask(ctx, d)
	for _, w := range warnings {
		b.EventRing.Note(time.Now(), event.ApplicationGate, d.Application, w)
	}
	return warnings, err
}

// SetHook implements rest.Backend. Which namespaces there are is the root's to know, so one
// that nothing here is of yet will do.
func (b *Backend) SetHook(ctx context.Context, namespace, name string, r apiv1.HookRequest) (apiv1.HookView, error) {
	for _, n := range []string{name, namespace} {
		if n != "" && !enroll.IsName(n) || name == "" {
			return apiv1.HookView{}, wire.Problemf(422, "bad-name", "letters a-z, digits and -, at most 63",
				"this cannot be the name of a hook, or of a namespace", "%.80q", n)
		}
	}
	v, err := b.HookKeeper.Set(ctx, namespace, name, rest.Caller(ctx), r)
	b.sayHook(event.HookSet, v, "set", err)
	return v, err
}

// sayHook tells people what was done with a hook.
func (b *Backend) sayHook(kind event.Kind, v apiv1.HookView, what string, err error) {
	if err == nil {
		b.EventRing.Note(time.Now(), kind, wire.HookLabel(v.Namespace, v.Name), what)
	}
}

// RotateHook implements rest.Backend.
func (b *Backend) RotateHook(ctx context.Context, namespace, name, secret string, overlapSeconds int) (apiv1.HookView,
	error) {
	v, err := b.HookKeeper.Rotate(ctx, namespace, name, rest.Caller(ctx), secret, overlapSeconds)
	b.sayHook(event.HookRotated, v, "has another secret", err)
	return v, err
}

// RemoveHook implements rest.Backend.
func (b *Backend) RemoveHook(ctx context.Context, namespace, name string) (apiv1.HookView, error) {
	v, err := b.HookKeeper.Remove(ctx, namespace, name)
	b.sayHook(event.HookRemoved, v, fmt.Sprintf("removed, with %s that waited", wire.Count(v.Waiting, "notice")), err)
	return v, err
}

// PauseHook implements rest.Backend.
func (b *Backend) PauseHook(ctx context.Context, namespace, name string) (apiv1.HookView, error) {
	by := rest.Caller(ctx)
	if by == "" {
		return apiv1.HookView{}, errors.New("nobody asks")
	}
	return b.HookKeeper.Pause(ctx, namespace, name, by)
}

// ResumeHook implements rest.Backend.
func (b *Backend) ResumeHook(ctx context.Context, namespace, name string) (apiv1.HookView, error) {
	return b.HookKeeper.Resume(ctx, namespace, name)
}

// TestHook implements rest.Backend.
func (b *Backend) TestHook(ctx context.Context, namespace, name string) (apiv1.HookTested, error) {
	return b.HookKeeper.Test(ctx, namespace, name, rest.Caller(ctx))
}

// Hooks implements rest.Backend.
func (b *Backend) Hooks(context.Context) ([]apiv1.HookView, error) {
	return b.HookKeeper.Hooks("", true), nil
}
