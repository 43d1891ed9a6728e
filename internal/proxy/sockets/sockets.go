package sockets

import (
	"context"
	"net"
	"time"
)

// Dialer opens connections: a net.Dialer, or Sockets.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Listener opens what is listened at: a net.ListenConfig, or Sockets.
type Listener interface {
	Listen(ctx context.Context, network, address string) (net.Listener, error)
}

var (
	_ Dialer   = (*net.Dialer)(nil)
	_ Listener = (*net.ListenConfig)(nil)
)

// Opener opens what a router listens at.
type Opener struct {
	Sockets   Sockets
	Listeners Listeners
	Public    func(open func() error) error
}

// Listener is that of sockets or listeners, or else lc. name says what listens there.
func (o *Opener) Listener(lc net.ListenConfig, name string) Listener {
	switch {
	case o.Sockets != nil:
		return o.Sockets
	case o.Listeners != nil:
		return named{o.Listeners, lc, name}
	}
	return &lc
}

// InPublic opens a socket of the gateway where its users are.
func (o *Opener) InPublic(open func() error) error {
	if o.Public == nil {
		return open()
	}
	return o.Public(open)
}

// DialWithin is a dialer whose dials take no longer than timeout.
func DialWithin(d Dialer, timeout time.Duration) Dialer { return within{d, timeout} }

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
	Dialer
	timeout time.Duration
}

// DialContext implements dialer.
func (w within) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	return w.Dialer.DialContext(ctx, network, address)
}

// Sockets opens TCP sockets, as net.ListenConfig and net.Dialer do. What it makes are a
// *net.TCPListener and a *net.TCPConn: bodies are spliced between sockets. It is called
// from any goroutine.
type Sockets interface {
	Listen(ctx context.Context, network, address string) (net.Listener, error)
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Listeners opens TCP sockets to listen at. Which one it is say name and address together.
// It is called from any goroutine.
type Listeners interface {
	Listen(ctx context.Context, lc net.ListenConfig, name, network, address string) (net.Listener, error)
}
