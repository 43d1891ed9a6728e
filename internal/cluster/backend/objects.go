package backend

import (
	"context"
	"errors"
	"io"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/check"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// GetObject implements rest.Backend.
func (b *Backend) GetObject(ctx context.Context, namespace, name string) (apiv1.ObjectView, io.ReadSeekCloser, error) {
	if err := isNamespace(namespace); err != nil {
		return apiv1.ObjectView{}, nil, err
	}
	if err := b.mayTouch(ctx, namespace, name, volumes.TouchGet); err != nil {
		return apiv1.ObjectView{}, nil, err
	}
	return b.ObjectStore.Get(ctx, namespace, name)
}

// PutObject implements rest.Backend: what is put here is the cluster's own.
func (b *Backend) PutObject(ctx context.Context, in rest.ObjectUpload) (apiv1.ObjectView, error) {
	if err := isNamespace(in.Namespace); err != nil {
		return apiv1.ObjectView{}, err
	}
	if err := b.mayTouch(ctx, in.Namespace, in.Name, volumes.TouchPut); err != nil {
		return apiv1.ObjectView{}, err
	}
	return b.ObjectStore.Put(ctx, objects.Upload{
		Namespace: in.Namespace, Name: in.Name, Type: in.Type, By: rest.Caller(ctx), Size: in.Size, Digest: in.Digest,
		Body: in.Body,
	})
}

// RemoveObject implements rest.Backend.
func (b *Backend) RemoveObject(ctx context.Context, namespace, name string) (apiv1.ObjectView, error) {
	if err := b.mayTouch(ctx, namespace, name, volumes.TouchRemove); err != nil {
		return apiv1.ObjectView{}, err
	}
	v, err := b.ObjectStore.Remove(ctx, namespace, name)
	var p *wire.Problem
	if gone := errors.As(err, &p) && p.Status == 404; err == nil || gone { // of one that is lost nothing else is there
		if ferr := b.forgetSnapshot(ctx, namespace, name); ferr != nil {
			return v, ferr
		}
	}
	return v, err
}

// Objects implements rest.Backend.
func (b *Backend) Objects(ctx context.Context, namespace string) ([]apiv1.ObjectView, error) {
	return b.ObjectStore.List(ctx, namespace)
}

// isNamespace: the root knows which there are.
func isNamespace(name string) error {
	if enroll.IsName(name) {
		return nil
	}
	return wire.Problemf(422, "bad-name", "letters a-z, digits and -, at most 63",
		"this cannot be the name of a namespace", "%q", name[:min(len(name), check.MaxName)])
}
