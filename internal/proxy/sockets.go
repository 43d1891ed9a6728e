package proxy

import (
	"context"
	"net"
	"time"
)

// dialer opens connections: a net.Dialer, or Sockets.
type dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// listener opens what is listened at: a net.ListenConfig, or Sockets.
type listener interface {
	Listen(ctx context.Context, network, address string) (net.Listener, error)
}

var (
	_ dialer   = (*net.Dialer)(nil)
	_ listener = (*net.ListenConfig)(nil)
)

// listener is Options.Sockets or that of Options.Listeners, or else lc. name says what
// listens there.
func (r *Router) listener(lc net.ListenConfig, name string) listener {
	switch {
	case r.opts.Sockets != nil:
		return r.opts.Sockets
	case r.opts.Listeners != nil:
		return named{r.opts.Listeners, lc, name}
	}
	return &lc
}

// public opens a socket of the gateway.
func (r *Router) public(open func() error) error {
	if r.opts.Public == nil {
		return open()
	}
	return r.opts.Public(open)
}

// named opens sockets of one name.
type named struct {
	Listeners
	lc   net.ListenConfig
	name string
}

// Listen implements listener.
func (n named) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	return n.Listeners.Listen(ctx, n.lc, n.name, network, address)
}

// within bounds how long a dial may take.
type within struct {
	dialer
	timeout time.Duration
}

// DialContext implements dialer.
func (w within) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	return w.dialer.DialContext(ctx, network, address)
}
