package resttest

import (
	"context"
	"slices"

	"github.com/verge-edge/verge/internal/wire"
)

// SetSecret notes the value in SecretValues, by "namespace.name".
func (f *Fake) SetSecret(_ context.Context, namespace, name string, value []byte) (wire.SecretView, error) {
	end, err := f.begin("set secret")
	if err != nil {
		return wire.SecretView{}, err
	}
	defer end()
	if f.SecretValues == nil {
		f.SecretValues = map[string]string{}
	}
	f.SecretValues[wire.SecretID(namespace, name)] = string(value)
	v := wire.SecretView{Namespace: namespace, Name: name}
	if i := f.secret(namespace, name); i >= 0 {
		return f.SecretList[i], nil
	}
	f.SecretList = append(f.SecretList, v)
	return v, nil
}

// RemoveSecret takes one out of SecretList.
func (f *Fake) RemoveSecret(_ context.Context, namespace, name string) (wire.SecretView, error) {
	end, err := f.begin("remove secret")
	if err != nil {
		return wire.SecretView{}, err
	}
	defer end()
	i := f.secret(namespace, name)
	if i < 0 {
		return wire.SecretView{}, missing("secret", name)
	}
	v := f.SecretList[i]
	f.SecretList = slices.Delete(f.SecretList, i, i+1)
	return v, nil
}

// Secrets are SecretList.
func (f *Fake) Secrets(_ context.Context, namespace string) ([]wire.SecretView, error) {
	end, err := f.begin("secrets")
	if err != nil {
		return nil, err
	}
	defer end()
	out := []wire.SecretView{}
	for _, v := range f.SecretList {
		if namespace == "" || v.Namespace == namespace {
			out = append(out, v)
		}
	}
	return out, nil
}

func (f *Fake) secret(namespace, name string) int {
	return slices.IndexFunc(f.SecretList, func(v wire.SecretView) bool { return v.Namespace == namespace && v.Name == name })
}
