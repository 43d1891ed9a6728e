package backend

import (
	"context"
	"fmt"
	"io"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/namespaces"
	"github.com/verge-edge/verge/internal/root/state"
)

var _ rest.Objects = Backend{}

// GetObject implements rest.Backend.
func (b Backend) GetObject(ctx context.Context, namespace, name string) (apiv1.ObjectView, io.ReadSeekCloser, error) {
	return b.ObjectStore.Get(ctx, namespace, name)
}

// PutObject implements rest.Backend.
func (b Backend) PutObject(ctx context.Context, in rest.ObjectUpload) (apiv1.ObjectView, error) {
	if !b.knowsNamespace(in.Namespace) {
		return apiv1.ObjectView{}, namespaces.NotFound(in.Namespace)
	}
	v, err := b.ObjectStore.Put(ctx, objects.Upload{
		Namespace: in.Namespace, Name: in.Name, Type: in.Type, By: rest.Caller(ctx), Size: in.Size, Digest: in.Digest,
		Body: in.Body,
	})
	if err == nil && !b.knowsNamespace(in.Namespace) {
		// It was removed while the object came.
		if _, rerr := b.ObjectStore.Remove(ctx, in.Namespace, in.Name); rerr != nil {
			return v, fmt.Errorf("the namespace is gone, and the object could not be removed: %w", rerr)
		}
		return apiv1.ObjectView{}, namespaces.NotFound(in.Namespace)
	}
	return v, err
}

// addObjects adds what the objects of namespaces have to what they use. It is called
// outside core.Do: a list of many takes its time.
func (b Backend) addObjects(ctx context.Context, views ...*apiv1.NamespaceView) error {
	used, err := b.ObjectStore.Used(ctx)
	for _, v := range views {
		v.Used.Objects += api.Bytes(used[v.Name])
	}
	return err
}

func (b Backend) knowsNamespace(name string) bool {
	return core.View(b.Core, func(m *state.Model) bool { return namespaces.Has(m, name) })
}

// RemoveObject implements rest.Backend.
func (b Backend) RemoveObject(ctx context.Context, namespace, name string) (apiv1.ObjectView, error) {
	return b.ObjectStore.Remove(ctx, namespace, name)
}

// Objects implements rest.Backend.
func (b Backend) Objects(ctx context.Context, namespace string) ([]apiv1.ObjectView, error) {
	return b.ObjectStore.List(ctx, namespace)
}

// ObjectQuota is how many bytes the objects of a namespace may have, 0 for no bound.
func ObjectQuota(c *core.Core, namespace string) int64 {
	return core.View(c, func(m *state.Model) int64 {
		if ns := m.Namespaces[namespace]; ns != nil {
			return int64(ns.Quota.Objects)
		}
		return 0
	})
}
