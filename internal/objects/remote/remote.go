// Package remote asks the tier above for objects, over its HTTP interface and with
// the node's own certificate: not over the bus, where what is large would stand
// before what is urgent. TCP holds back who sends faster than is read.
//
// It tries the addresses of the tier above in order, the one that answered last
// first; nothing is connected before somebody asks, and what is not used any more
// is disconnected after some seconds.
package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/nodeclient"
	"github.com/verge-edge/verge/internal/wire"
)

var _ objects.Above = (*Remote)(nil)

// Remote is the object store of the tier above.
type Remote struct {
	tls   func() (*tls.Config, error)
	addrs func() []string

	mu      sync.Mutex // guards below
	clients map[string]*nodeclient.Client
	last    string // address that answered
}

// New makes one. conf, which is asked for when something is, proves who we are and
// says who must answer; addrs are those of its HTTP interface (host:port) at the
// moment.
func New(conf func() (*tls.Config, error), addrs func() []string) *Remote {
	return &Remote{tls: conf, addrs: addrs, clients: map[string]*nodeclient.Client{}}
}

// Close drops idle connections.
func (r *Remote) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.clients {
		c.Close()
	}
}

// Get implements objects.Above.
func (r *Remote) Get(ctx context.Context, namespace, name, have string) (objects.Got, error) {
	return first(r, func(c *nodeclient.Client) (objects.Got, error) {
		got, err := c.GetObject(ctx, namespace, name, have)
		if err == nil && (got.View.Name != name || got.View.Namespace != namespace) {
			err = errors.New("it answers with another object")
		}
		return objects.Got{Same: got.Same, View: got.View, Body: got.Body}, err
	})
}

// Put stores an object there. Its body is read at most once: where an address has
// taken some of it, no other is tried.
func (r *Remote) Put(ctx context.Context, in rest.ObjectUpload) (apiv1.ObjectView, error) {
	body := &touched{r: in.Body}
	in.Body = body
	return first(r, func(c *nodeclient.Client) (apiv1.ObjectView, error) {
		if body.begun.Load() {
			return apiv1.ObjectView{}, errors.New("it was sent to another address already")
		}
		return c.PutObject(ctx, in)
	})
}

// first asks one address after the other until one answers, if only to refuse.
func first[T any](r *Remote, ask func(c *nodeclient.Client) (T, error)) (out T, err error) {
	var failed []error
	for _, addr := range r.order() {
		c, err := r.client(addr)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		out, err := ask(c)
		var p *wire.Problem
		if err == nil || errors.As(err, &p) && p.Status != 0 {
			r.mu.Lock()
			r.last = addr
			r.mu.Unlock()
			return out, err
		}
		failed = append(failed, err)
	}
	if len(failed) == 0 {
		return out, wire.Problemf(0, nodeclient.CodeUnreachable, "is it joined?", "nobody can be asked",
			"no address is known")
	}
	return out, errors.Join(failed...)
}

// order of the addresses: what answered last first.
func (r *Remote) order() []string {
	out := slices.Clone(r.addrs())
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(out, r.last); i > 0 {
		out = slices.Insert(slices.Delete(out, i, i+1), 0, r.last)
	}
	return out
}

func (r *Remote) client(addr string) (*nodeclient.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.clients[addr]; c != nil {
		return c, nil
	}
	conf, err := r.tls()
	if err != nil {
		return nil, err
	}
	c, err := nodeclient.New(addr, conf)
	if err == nil {
		r.clients[addr] = c
	}
	return c, err
}

// touched knows whether any of it was read.
type touched struct {
	r     io.Reader
	begun atomic.Bool
}

func (t *touched) Read(p []byte) (int, error) {
	t.begun.Store(true)
	return t.r.Read(p)
}
