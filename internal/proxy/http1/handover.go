package http1

import (
	"errors"
	"net"
	"sync"
	"time"
)

// replayed is a connection whose first bytes were read already.
type replayed struct {
	net.Conn
	c *Conn // closed in its place
	b []byte
}

// replayOf makes c a connection as if nothing had been read from it.
func replayOf(c *Conn) net.Conn {
	r := &replayed{Conn: c.conn, c: c, b: append([]byte(nil), c.Buffered()...)}
	c.r, c.w = 0, 0
	c.rest()
	_ = c.conn.SetDeadline(time.Time{}) // fails only on a closed connection
	return r
}

// Read implements net.Conn.
func (r *replayed) Read(p []byte) (int, error) {
	if len(r.b) > 0 && len(p) > 0 {
		n := copy(p, r.b)
		if r.b = r.b[n:]; len(r.b) == 0 {
			r.b = nil
		}
		return n, nil
	}
	return r.Conn.Read(p)
}

// Close implements net.Conn.
func (r *replayed) Close() error { return r.c.Close() }

// NetConn is the connection below.
func (r *replayed) NetConn() net.Conn { return r.Conn }

// CloseWrite passes a half-close on, which upgraded connections use.
func (r *replayed) CloseWrite() error {
	if h, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Listener gives connections that are handed over to a server.
type Listener struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// NewListener makes one that says that it listens at addr.
func NewListener(addr net.Addr) *Listener {
	return &Listener{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
}

// Give hands a connection to whoever accepts; it is closed if nobody does any more.
func (l *Listener) Give(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.done:
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.addr }
