package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// workerCaller says what a worker may ask for by HTTP: the objects of namespaces of
// which it is to run something, and the programs that it may be upgraded to.
func (c *Cluster) workerCaller(cs tls.ConnectionState, s pki.Subject) (rest.Principal, error) {
	if err := c.core.revoked.RefusesPeer(cs); err != nil {
		return rest.Principal{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.m.Workers[s.Name]; w == nil || !w.Revoked.IsZero() {
		return rest.Principal{}, fmt.Errorf("%s is not known here", s)
	}
	runs, reads := map[string]bool{}, map[string]bool{wire.ProgramsNamespace: true} // what it is upgraded to is no secret
	for key, o := range c.m.Orders {
		if strings.HasPrefix(key, s.Name+".") && o.Spec != nil {
			runs[wire.OrderNamespace(o)], reads[wire.OrderNamespace(o)] = true, true
		}
	}
	return rest.Principal{Who: access.Who{Name: s.String(), Node: true, Reads: reads, Writes: runs}}, nil
}

// GetObject implements rest.Backend.
func (b backend) GetObject(ctx context.Context, namespace, name string) (wire.ObjectView, io.ReadSeekCloser, error) {
	if err := isNamespace(namespace); err != nil {
		return wire.ObjectView{}, nil, err
	}
	if err := b.mayTouch(ctx, namespace, name, touchGet); err != nil {
		return wire.ObjectView{}, nil, err
	}
	return b.shelf.Get(ctx, namespace, name)
}

// PutObject implements rest.Backend: what is put here is the cluster's own.
func (b backend) PutObject(ctx context.Context, in rest.ObjectUpload) (wire.ObjectView, error) {
	if err := isNamespace(in.Namespace); err != nil {
		return wire.ObjectView{}, err
	}
	if err := b.mayTouch(ctx, in.Namespace, in.Name, touchPut); err != nil {
		return wire.ObjectView{}, err
	}
	return b.shelf.Put(ctx, objects.Upload{
		Namespace: in.Namespace, Name: in.Name, Type: in.Type, By: rest.Caller(ctx), Size: in.Size, Digest: in.Digest, Body: in.Body,
	})
}

// RemoveObject implements rest.Backend.
func (b backend) RemoveObject(ctx context.Context, namespace, name string) (wire.ObjectView, error) {
	if err := b.mayTouch(ctx, namespace, name, touchRemove); err != nil {
		return wire.ObjectView{}, err
	}
	v, err := b.shelf.Remove(ctx, namespace, name)
	var p *wire.Problem
	if gone := errors.As(err, &p) && p.Status == 404; err == nil || gone { // of one that is lost nothing else is there
		if ferr := b.forgetSnapshot(ctx, namespace, name); ferr != nil {
			return v, ferr
		}
	}
	return v, err
}

// Objects implements rest.Backend.
func (b backend) Objects(ctx context.Context, namespace string) ([]wire.ObjectView, error) {
	return b.shelf.List(ctx, namespace)
}

// isNamespace: the root knows which there are.
func isNamespace(name string) error {
	if enroll.IsName(name) {
		return nil
	}
	return wire.Problemf(422, "bad-name", "letters a-z, digits and -, at most 63", "this cannot be the name of a namespace", "%q", name[:min(len(name), maxName)])
}
