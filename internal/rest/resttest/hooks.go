package resttest

import (
	"context"
	"slices"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

var _ rest.Hooks = (*Fake)(nil)

// SetHook adds to HookList, or replaces what is there, and notes the secret.
func (f *Fake) SetHook(_ context.Context, namespace, name string, r wire.HookRequest) (wire.HookView, error) {
	return f.hook("set hook", namespace, name, func(i int) wire.HookView {
		v := wire.HookView{Namespace: namespace, Name: name, HookSpec: r.HookSpec, State: "ready"}
		if i < 0 {
			f.HookList = append(f.HookList, v)
		} else {
			f.HookList[i] = v
		}
		f.HookSecret = r.Secret
		return v
	})
}

// RotateHook notes the secret.
func (f *Fake) RotateHook(_ context.Context, namespace, name, secret string, _ int) (wire.HookView, error) {
	return f.hook("rotate hook", namespace, name, func(i int) wire.HookView {
		f.HookSecret = secret
		return f.one(i)
	})
}

// RemoveHook takes one out of HookList.
func (f *Fake) RemoveHook(_ context.Context, namespace, name string) (wire.HookView, error) {
	return f.hook("remove hook", namespace, name, func(i int) wire.HookView {
		v := f.one(i)
		if i >= 0 {
			f.HookList = slices.Delete(f.HookList, i, i+1)
		}
		return v
	})
}

// PauseHook changes the state of one.
func (f *Fake) PauseHook(_ context.Context, namespace, name string) (wire.HookView, error) {
	return f.state("pause hook", namespace, name, "paused")
}

// ResumeHook changes the state of one.
func (f *Fake) ResumeHook(_ context.Context, namespace, name string) (wire.HookView, error) {
	return f.state("resume hook", namespace, name, "ready")
}

// TestHook answers with HookAnswer.
func (f *Fake) TestHook(_ context.Context, namespace, name string) (wire.HookTested, error) {
	_, err := f.hook("test hook", namespace, name, f.one)
	return f.HookAnswer, err
}

// Hooks are HookList.
func (f *Fake) Hooks(context.Context) ([]wire.HookView, error) {
	end, err := f.begin("hooks")
	if err != nil {
		return nil, err
	}
	defer end()
	return slices.Clone(f.HookList), nil
}

func (f *Fake) state(op, namespace, name, state string) (wire.HookView, error) {
	return f.hook(op, namespace, name, func(i int) wire.HookView {
		if i >= 0 {
			f.HookList[i].State = state
		}
		return f.one(i)
	})
}

func (f *Fake) one(i int) wire.HookView {
	if i < 0 {
		return wire.HookView{}
	}
	return f.HookList[i]
}

// hook finds one; only setting does without.
func (f *Fake) hook(op, namespace, name string, do func(i int) wire.HookView) (wire.HookView, error) {
	end, err := f.begin(op)
	if err != nil {
		return wire.HookView{}, err
	}
	defer end()
	i := slices.IndexFunc(f.HookList, func(v wire.HookView) bool { return v.Namespace == namespace && v.Name == name })
	if i < 0 && op != "set hook" {
		return wire.HookView{}, missing("hook", name)
	}
	return do(i), nil
}
