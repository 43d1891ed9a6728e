package registryhttp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/containerd/containerd/v2/core/remotes/docker"
)

// Reach bounds where the requests to some registries of a pull connect to. A registry
// chooses where a worker asks for a token and where redirects lead, so it could send the
// worker to what listens at the worker's own loopback and link-local addresses. Only
// registries that the image or the machine names may be there.
type Reach struct {
	mu    sync.Mutex
	named map[string]bool // scheme://host; guarded by mu
	// local: all of them are named by loopback addresses, so their tokens may come from one.
	local bool // guarded by mu
}

// NewReach has no names yet.
func NewReach() *Reach { return &Reach{named: map[string]bool{}} }

// Name notes the registries that are asked. It is called before they are.
func (r *Reach) Name(hosts []docker.RegistryHost) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.local = len(hosts) > 0
	for _, h := range hosts {
		r.named[h.Scheme+"://"+h.Host] = true
		if _, plain := h.Client.Transport.(*Transport); !plain { // it tries HTTP after HTTPS
			r.named["http://"+h.Host] = true
		}
		local, err := docker.MatchLocalhost(h.Host)
		r.local = r.local && err == nil && local
	}
}

// anywhere is the key of a context in which any address may be dialled.
type anywhere struct{}

// mark returns the context of a request: the named registries, and the proxy that the
// machine has set, may be at any address. The scheme is part of a name: who can make a
// name lead here later has no certificate for it.
func (r *Reach) mark(ctx context.Context, q *http.Request, next http.RoundTripper) context.Context {
	r.mu.Lock()
	free := r.named[q.URL.Scheme+"://"+q.URL.Host]
	r.mu.Unlock()
	if t, ok := next.(*http.Transport); ok && !free && t.Proxy != nil {
		proxy, err := t.Proxy(q)
		free = err == nil && proxy != nil
	}
	if free {
		return context.WithValue(ctx, anywhere{}, true)
	}
	return ctx
}

// Guard makes a transport refuse connections to this machine for requests that are not
// marked. A name is looked up by the dialler, so the address is known when it is
// connected, before anything is sent.
func (r *Reach) Guard(t *http.Transport) {
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(anywhere{}) != nil {
			return dial(ctx, network, address)
		}
		if err := r.check(address); err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			// Whether something listens there is not told either.
			if op := (*net.OpError)(nil); errors.As(err, &op) && op.Addr != nil {
				if why := r.check(op.Addr.String()); why != nil {
					return nil, why
				}
			}
			return nil, err
		}
		if err := r.check(conn.RemoteAddr().String()); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	}
}

// check says why a registry must not lead to an address, which may be a name.
func (r *Reach) check(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil //nolint:nilerr // a name: its address is checked when it is connected
	}
	r.mu.Lock()
	local := r.local
	r.mu.Unlock()
	a := at.Addr().Unmap()
	var why string
	switch {
	case a.IsLoopback() && !local:
		why = "a loopback address"
	case a.IsLinkLocalUnicast():
		why = "a link-local address"
	case (a.IsUnspecified() || a.Is4() && a.As4()[0] == 0) && !local:
		why = "this machine"
	default:
		return nil
	}
	return fmt.Errorf("the registry leads to %s, for a token or by a redirect: that is %s, where the worker asks only registries that the image itself names so",
		address, why)
}
