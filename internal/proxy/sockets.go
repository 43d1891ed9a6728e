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

// listener is Options.Sockets, or else lc.
func (r *Router) listener(lc net.ListenConfig) listener {
	if r.opts.Sockets != nil {
		return r.opts.Sockets
	}
	return &lc
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
