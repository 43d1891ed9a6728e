package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// gate asks the hooks of this cluster that are to be asked before something is done here
// with an application. edit: it is a change that the root might have to make. The mutex is
// not held.
func (b backend) gate(ctx context.Context, operation, app string, edit bool, what string) (warnings []string, err error) {
	b.mu.Lock()
	namespace, revision := b.m.Namespace(app), b.m.localRevision(app)
	if asks := b.hooks.Asks(operation, namespace); !asks || namespace == "" {
		b.mu.Unlock()
		return nil, nil // which the operation itself says
	}
	if edit {
		err = b.mayEdit(ctx, app, time.Now())
	}
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return b.askHooks(ctx, wire.HookData{Operation: operation, Namespace: namespace, Application: app, Revision: revision, What: what})
}

// gateApply asks before a descriptor becomes what counts here, if it would. The mutex is not
// held.
func (b backend) gateApply(ctx context.Context, source []byte) (a hooks.Agreed, err error) {
	if !b.hooks.Any() {
		return a, nil
	}
	spec, _, err := parsed(source)
	if err != nil || !b.hooks.Asks(wire.GateApply, wire.NamespaceOf(spec)) {
		return a, err
	}
	res, err := b.applyLocal(ctx, source, true, time.Now())
	if err != nil || res.Change == "unchanged" {
		return a, err
	}
	a.Asked, a.Revision = true, res.Revision
	a.Warnings, err = b.askHooks(ctx, wire.HookData{
		Operation: wire.GateApply, Namespace: wire.NamespaceOf(spec), Application: spec.Application, Revision: res.Revision, What: res.Change, Descriptor: string(source),
	})
	return a, err
}

func (b backend) askHooks(ctx context.Context, d wire.HookData) ([]string, error) {
	d.Subject, d.Cluster, d.By = "application/"+d.Application, b.name, rest.Caller(ctx)
	warnings, err := b.hooks.Ask(ctx, d)
	for _, w := range warnings {
		b.events.Add(time.Now(), "cluster/"+b.name, d.Subject, w)
	}
	return warnings, err
}

// SetHook implements rest.Backend. Which namespaces there are is the root's to know, so one
// that nothing here is of yet will do.
func (b backend) SetHook(ctx context.Context, namespace, name string, r wire.HookRequest) (wire.HookView, error) {
	for _, n := range []string{name, namespace} {
		if n != "" && !enroll.IsName(n) || name == "" {
			return wire.HookView{}, wire.Problemf(422, "bad-name", "letters a-z, digits and -, at most 63", "this cannot be the name of a hook, or of a namespace", "%.80q", n)
		}
	}
	v, err := b.hooks.Set(ctx, namespace, name, rest.Caller(ctx), r)
	b.sayHook(v, "set", err)
	return v, err
}

// sayHook tells people what was done with a hook.
func (b backend) sayHook(v wire.HookView, what string, err error) {
	if err == nil {
		b.events.Add(time.Now(), "cluster/"+b.name, "hook/"+wire.HookLabel(v.Namespace, v.Name), what)
	}
}

// RotateHook implements rest.Backend.
func (b backend) RotateHook(ctx context.Context, namespace, name, secret string, overlapSeconds int) (wire.HookView, error) {
	v, err := b.hooks.Rotate(ctx, namespace, name, rest.Caller(ctx), secret, overlapSeconds)
	b.sayHook(v, "has another secret", err)
	return v, err
}

// RemoveHook implements rest.Backend.
func (b backend) RemoveHook(ctx context.Context, namespace, name string) (wire.HookView, error) {
	v, err := b.hooks.Remove(ctx, namespace, name)
	b.sayHook(v, fmt.Sprintf("removed, with %s that waited", wire.Count(v.Waiting, "notice")), err)
	return v, err
}

// PauseHook implements rest.Backend.
func (b backend) PauseHook(ctx context.Context, namespace, name string) (wire.HookView, error) {
	by := rest.Caller(ctx)
	if by == "" {
		return wire.HookView{}, errors.New("nobody asks")
	}
	return b.hooks.Pause(ctx, namespace, name, by)
}

// ResumeHook implements rest.Backend.
func (b backend) ResumeHook(ctx context.Context, namespace, name string) (wire.HookView, error) {
	return b.hooks.Resume(ctx, namespace, name)
}

// TestHook implements rest.Backend.
func (b backend) TestHook(ctx context.Context, namespace, name string) (wire.HookTested, error) {
	return b.hooks.Test(ctx, namespace, name, rest.Caller(ctx))
}

// Hooks implements rest.Backend.
func (b backend) Hooks(context.Context) ([]wire.HookView, error) { return b.hooks.Hooks("", true), nil }
