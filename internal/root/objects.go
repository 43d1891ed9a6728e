package root

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// clusterCaller says what a cluster may ask for by HTTP.
func (r *Root) clusterCaller(cs tls.ConnectionState, s pki.Subject) (rest.Principal, error) {
	if err := r.revoked.RefusesPeer(cs); err != nil {
		return rest.Principal{}, err
	}
	who := access.Who{Name: s.String(), Node: true, Reads: map[string]bool{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, share := range r.m.shares {
		if strings.HasPrefix(key, s.Cluster+".") {
			who.Reads[wire.ShareNamespace(share)] = true
		}
	}
	return rest.Principal{Who: who}, nil
}

// GetObject implements rest.Backend.
func (b backend) GetObject(ctx context.Context, namespace, name string) (wire.ObjectView, io.ReadSeekCloser, error) {
	return b.shelf.Get(ctx, namespace, name)
}

// PutObject implements rest.Backend.
func (b backend) PutObject(ctx context.Context, in rest.ObjectUpload) (wire.ObjectView, error) {
	if !b.knowsNamespace(in.Namespace) {
		return wire.ObjectView{}, noNamespace(in.Namespace)
	}
	v, err := b.shelf.Put(ctx, objects.Upload{
		Namespace: in.Namespace, Name: in.Name, Type: in.Type, By: rest.Caller(ctx), Size: in.Size, Digest: in.Digest, Body: in.Body,
	})
	if err == nil && !b.knowsNamespace(in.Namespace) {
		// It was removed while the object came.
		if _, rerr := b.shelf.Remove(ctx, in.Namespace, in.Name); rerr != nil {
			return v, fmt.Errorf("the namespace is gone, and the object could not be removed: %w", rerr)
		}
		return wire.ObjectView{}, noNamespace(in.Namespace)
	}
	return v, err
}

// objectQuota is how many bytes the objects of a namespace may have, 0 for no bound.
func (c *core) objectQuota(namespace string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ns := c.m.namespaces[namespace]; ns != nil {
		return int64(ns.Quota.Objects)
	}
	return 0
}

// addObjects adds what the objects of namespaces have to what they use. It is called
// without the mutex: a list of many takes its time.
func (b backend) addObjects(ctx context.Context, views ...*wire.NamespaceView) error {
	used, err := b.shelf.Used(ctx)
	for _, v := range views {
		v.Used.Objects += api.Bytes(used[v.Name])
	}
	return err
}

func (b backend) knowsNamespace(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.m.hasNamespace(name)
}

// RemoveObject implements rest.Backend.
func (b backend) RemoveObject(ctx context.Context, namespace, name string) (wire.ObjectView, error) {
	return b.shelf.Remove(ctx, namespace, name)
}

// Objects implements rest.Backend.
func (b backend) Objects(ctx context.Context, namespace string) ([]wire.ObjectView, error) {
	return b.shelf.List(ctx, namespace)
}
