// Package httplistener bounds the connections of an HTTP server, in all and from one address.
package httplistener

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/verge-edge/verge/internal/accept"
)

// Listener accepts as many connections as its room holds. Where that is full of
// authenticated ones, further ones wait in the kernel's queue until one is closed.
type Listener struct {
	net.Listener
	room *accept.Room
	done chan struct{}
	once sync.Once
}

// New bounds a listener to n connections, and each of one address.
func New(l net.Listener, n, each int) *Listener {
	return &Listener{Listener: l, room: accept.NewRoom(n, each), done: make(chan struct{})}
}

// Accept waits until there is room, then for a connection.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		if full := l.room.Full(); full != nil {
			select {
			case <-full:
				continue
			case <-l.done:
				return nil, net.ErrClosed
			}
		}
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, accept.Passing(err)
		}
		bounded := &boundedConn{Conn: c}
		if bounded.place = l.room.Enter(accept.Source(c.RemoteAddr().String()),
			func() { _ = c.Close() }); bounded.place != nil {
			return bounded, nil
		}
		_ = c.Close() // nothing was said yet
	}
}

// Close also ends an Accept that waits for room.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

type boundedConn struct {
	net.Conn
	place *accept.Place
}

// Close gives the connection's place back, once.
func (c *boundedConn) Close() error {
	defer c.place.Leave()
	return c.Conn.Close()
}

// placeKey is where the context of a connection has its place.
type placeKey struct{}

// WithPlace is http.Server.ConnContext.
func WithPlace(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if b, ok := c.(*boundedConn); ok {
		return context.WithValue(ctx, placeKey{}, b.place)
	}
	return ctx
}

// KeepPlace lets the connection of an authenticated request keep its place.
func KeepPlace(ctx context.Context) {
	if p, ok := ctx.Value(placeKey{}).(*accept.Place); ok {
		p.Known()
	}
}
