package resttest

import (
	"context"
	"net/http"

	"github.com/verge-edge/verge/internal/wire"
)

// CreateNamespace adds to Spaces.
func (f *Fake) CreateNamespace(_ context.Context, r wire.NamespaceRequest) (wire.NamespaceView, error) {
	end, err := f.begin("create-namespace")
	if err != nil {
		return wire.NamespaceView{}, err
	}
	defer end()
	for _, s := range f.Spaces {
		if s.Name == r.Name {
			return s, wire.Problemf(http.StatusConflict, "name-taken", "verge namespace quota "+r.Name, "there is such a namespace already", "%s", r.Name)
		}
	}
	v := wire.NamespaceView{Name: r.Name, Quota: r.Quota, Standing: r.Standing}
	f.Spaces = append(f.Spaces, v)
	return v, nil
}

// SetQuota changes one of Spaces.
func (f *Fake) SetQuota(_ context.Context, name string, q wire.Quota) (wire.NamespaceView, error) {
	return f.changeSpace("set-quota", name, func(v *wire.NamespaceView) { v.Quota = q })
}

// SetStanding changes one of Spaces.
func (f *Fake) SetStanding(_ context.Context, name string, s wire.Standing) (wire.NamespaceView, error) {
	return f.changeSpace("set-standing", name, func(v *wire.NamespaceView) { v.Standing = s })
}

func (f *Fake) changeSpace(op, name string, change func(*wire.NamespaceView)) (wire.NamespaceView, error) {
	end, err := f.begin(op)
	if err != nil {
		return wire.NamespaceView{}, err
	}
	defer end()
	for i := range f.Spaces {
		if f.Spaces[i].Name == name {
			change(&f.Spaces[i])
			return f.Spaces[i], nil
		}
	}
	return wire.NamespaceView{}, missing("namespace", name)
}

// RemoveNamespace takes it away from Spaces, unless it is in use.
func (f *Fake) RemoveNamespace(_ context.Context, name string) error {
	end, err := f.begin("delete-namespace")
	if err != nil {
		return err
	}
	defer end()
	for i, s := range f.Spaces {
		switch {
		case s.Name != name:
		case s.Used.Applications > 0:
			return wire.Problemf(http.StatusConflict, "not-empty", "delete them first", "the namespace is in use", "it has %s", wire.Count(s.Used.Applications, "application"))
		default:
			f.Spaces = append(f.Spaces[:i:i], f.Spaces[i+1:]...)
			return nil
		}
	}
	return missing("namespace", name)
}

// Namespaces are Spaces.
func (f *Fake) Namespaces(context.Context) ([]wire.NamespaceView, error) {
	return all(f, "namespaces", &f.Spaces)
}

// Namespace is one of Spaces.
func (f *Fake) Namespace(_ context.Context, name string) (wire.NamespaceView, error) {
	return one(f, "namespace", &f.Spaces, name, func(v wire.NamespaceView) string { return v.Name })
}
