package resttest

import (
	"context"
	"net/http"
	"slices"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// CreateNamespace adds to Spaces.
func (f *Fake) CreateNamespace(_ context.Context, r apiv1.NamespaceRequest) (apiv1.NamespaceView, error) {
	return do(f, "create-namespace", func() (apiv1.NamespaceView, error) {
		for _, s := range f.Spaces {
			if s.Name == r.Name {
				return s, wire.Problemf(http.StatusConflict, "name-taken", "verge namespace quota "+r.Name,
					"there is such a namespace already", "%s", r.Name)
			}
		}
		v := apiv1.NamespaceView{Name: r.Name, Quota: r.Quota, Standing: r.Standing}
		f.Spaces = append(f.Spaces, v)
		return v, nil
	})
}

// SetQuota changes one of Spaces.
func (f *Fake) SetQuota(_ context.Context, name string, q wire.Quota) (apiv1.NamespaceView, error) {
	return f.changeSpace("set-quota", name, func(v *apiv1.NamespaceView) { v.Quota = q })
}

// SetStanding changes one of Spaces.
func (f *Fake) SetStanding(_ context.Context, name string, s wire.Standing) (apiv1.NamespaceView, error) {
	return f.changeSpace("set-standing", name, func(v *apiv1.NamespaceView) { v.Standing = s })
}

func (f *Fake) changeSpace(op, name string, change func(*apiv1.NamespaceView)) (apiv1.NamespaceView, error) {
	end, err := f.begin(op)
	if err != nil {
		return apiv1.NamespaceView{}, err
	}
	defer end()
	for i := range f.Spaces {
		if f.Spaces[i].Name == name {
			change(&f.Spaces[i])
			return f.Spaces[i], nil
		}
	}
	return apiv1.NamespaceView{}, missing("namespace", name)
}

// RemoveNamespace takes it away from Spaces, unless it is in use.
func (f *Fake) RemoveNamespace(_ context.Context, name string) error {
	return f.run("delete-namespace", func() error {
		for i, s := range f.Spaces {
			switch {
			case s.Name != name:
			case s.Used.Applications > 0:
				return wire.Problemf(http.StatusConflict, "not-empty", "delete them first", "the namespace is in use",
					"it has %s", wire.Count(s.Used.Applications, "application"))
			default:
				f.Spaces = append(f.Spaces[:i:i], f.Spaces[i+1:]...)
				return nil
			}
		}
		return missing("namespace", name)
	})
}

// Namespaces are Spaces.
func (f *Fake) Namespaces(context.Context) ([]apiv1.NamespaceView, error) {
	return all(f, "namespaces", &f.Spaces)
}

// Namespace is one of Spaces.
func (f *Fake) Namespace(_ context.Context, name string) (apiv1.NamespaceView, error) {
	return one(f, "namespace", &f.Spaces, name, func(v apiv1.NamespaceView) string { return v.Name })
}

// SetSecret notes the value in SecretValues, by "namespace.name".
func (f *Fake) SetSecret(_ context.Context, namespace, name string, value []byte) (apiv1.SecretView, error) {
	return do(f, "set secret", func() (apiv1.SecretView, error) {
		if f.SecretValues == nil {
			f.SecretValues = map[string]string{}
		}
		f.SecretValues[wire.SecretID(namespace, name)] = string(value)
		v := apiv1.SecretView{Namespace: namespace, Name: name}
		if i := f.secret(namespace, name); i >= 0 {
			return f.SecretList[i], nil
		}
		f.SecretList = append(f.SecretList, v)
		return v, nil
	})
}

// RemoveSecret takes one out of SecretList.
func (f *Fake) RemoveSecret(_ context.Context, namespace, name string) (apiv1.SecretView, error) {
	return do(f, "remove secret", func() (apiv1.SecretView, error) {
		i := f.secret(namespace, name)
		if i < 0 {
			return apiv1.SecretView{}, missing("secret", name)
		}
		v := f.SecretList[i]
		f.SecretList = slices.Delete(f.SecretList, i, i+1)
		return v, nil
	})
}

// Secrets are SecretList.
func (f *Fake) Secrets(_ context.Context, namespace string) ([]apiv1.SecretView, error) {
	return do(f, "secrets", func() ([]apiv1.SecretView, error) {
		out := []apiv1.SecretView{}
		for _, v := range f.SecretList {
			if namespace == "" || v.Namespace == namespace {
				out = append(out, v)
			}
		}
		return out, nil
	})
}

func (f *Fake) secret(namespace, name string) int {
	return slices.IndexFunc(f.SecretList,
		func(v apiv1.SecretView) bool { return v.Namespace == namespace && v.Name == name })
}

// SetHook adds to HookList, or replaces what is there, and notes the secret.
func (f *Fake) SetHook(_ context.Context, namespace, name string, r apiv1.HookRequest) (apiv1.HookView, error) {
	return f.hook("set hook", namespace, name, func(i int) apiv1.HookView {
		v := apiv1.HookView{Namespace: namespace, Name: name, HookSpec: r.HookSpec, State: "ready"}
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
func (f *Fake) RotateHook(_ context.Context, namespace, name, secret string, _ int) (apiv1.HookView, error) {
	return f.hook("rotate hook", namespace, name, func(i int) apiv1.HookView {
		f.HookSecret = secret
		return f.one(i)
	})
}

// RemoveHook takes one out of HookList.
func (f *Fake) RemoveHook(_ context.Context, namespace, name string) (apiv1.HookView, error) {
	return f.hook("remove hook", namespace, name, func(i int) apiv1.HookView {
		v := f.one(i)
		if i >= 0 {
			f.HookList = slices.Delete(f.HookList, i, i+1)
		}
		return v
	})
}

// PauseHook changes the state of one.
func (f *Fake) PauseHook(_ context.Context, namespace, name string) (apiv1.HookView, error) {
	return f.state("pause hook", namespace, name, "paused")
}

// ResumeHook changes the state of one.
func (f *Fake) ResumeHook(_ context.Context, namespace, name string) (apiv1.HookView, error) {
	return f.state("resume hook", namespace, name, "ready")
}

// TestHook answers with HookAnswer.
func (f *Fake) TestHook(_ context.Context, namespace, name string) (apiv1.HookTested, error) {
	_, err := f.hook("test hook", namespace, name, f.one)
	return f.HookAnswer, err
}

// Hooks are HookList.
func (f *Fake) Hooks(context.Context) ([]apiv1.HookView, error) {
	return do(f, "hooks", func() ([]apiv1.HookView, error) {
		return slices.Clone(f.HookList), nil
	})
}

func (f *Fake) state(op, namespace, name, state string) (apiv1.HookView, error) {
	return f.hook(op, namespace, name, func(i int) apiv1.HookView {
		if i >= 0 {
			f.HookList[i].State = state
		}
		return f.one(i)
	})
}

func (f *Fake) one(i int) apiv1.HookView {
	if i < 0 {
		return apiv1.HookView{}
	}
	return f.HookList[i]
}

// hook finds one; only setting does without.
func (f *Fake) hook(op, namespace, name string, do func(i int) apiv1.HookView) (apiv1.HookView, error) {
	end, err := f.begin(op)
	if err != nil {
		return apiv1.HookView{}, err
	}
	defer end()
	i := slices.IndexFunc(f.HookList, func(v apiv1.HookView) bool { return v.Namespace == namespace && v.Name == name })
	if i < 0 && op != "set hook" {
		return apiv1.HookView{}, missing("hook", name)
	}
	return do(i), nil
}
