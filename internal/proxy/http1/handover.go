package http1

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// halfClosed is for how long a client that has ended its side still gets an answer.
const halfClosed = 200 * time.Millisecond

// replayed is a connection whose first bytes were read already.
//
// net/http takes a request back when its client has ended its side. Such a client may
// still wait for the answer, so the end is told halfClosed later: one that has left
// looks the same, and what is done for that is in vain.
type replayed struct {
	net.Conn
	c     *Conn // closed in its place
	http2 bool
	// follow looks at requests of HTTP/1; nil: none are to come. refused: the rest is not
	// passed on.
	follow  *follower
	refused bool
	dropped int // bytes

	// Of whoever reads, one at a time.
	b    []byte
	told bool // the end

	wake chan struct{} // ends the wait before the end is told
}

// replayOf makes c a connection as if nothing had been read from it.
func replayOf(c *Conn) net.Conn {
	r := &replayed{Conn: c.conn, c: c, b: append([]byte(nil), c.Buffered()...), wake: make(chan struct{}, 1)}
	r.http2 = bytes.HasPrefix(r.b, []byte("PRI "))
	r.told = r.http2 // it ends streams, not connections
	if !r.http2 {
		r.follow = &follower{}
		n, instead := r.follow.pass(r.b)
		r.b, r.refused = append(r.b[:n], instead...), instead != nil
	}
	c.r, c.w = 0, 0
	c.rest()
	_ = c.conn.SetDeadline(time.Time{}) // fails only on a closed connection
	return r
}

// IsHTTP2 says whether a connection that was handed over speaks HTTP/2.
func IsHTTP2(c net.Conn) bool {
	r, ok := c.(*replayed)
	return ok && r.http2
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
	if r.refused {
		return r.drop(p)
	}
	n, err := r.Conn.Read(p)
	if n > 0 && r.follow != nil {
		if k, instead := r.follow.pass(p[:n]); instead != nil {
			r.refused = true
			m := copy(p[k:], instead)
			r.b = instead[m:]
			return k + m, nil
		}
	}
	if n > 0 || r.told || !errors.Is(err, io.EOF) {
		return n, err
	}
	t := time.NewTimer(halfClosed)
	defer t.Stop()
	select {
	case <-t.C:
		r.told = true
		return 0, io.EOF
	case <-r.wake:
		return 0, os.ErrDeadlineExceeded // the next Read finds the end again
	}
}

// drop reads what follows a request that was refused, and waits as if nothing had come: the
// requests before it may still be served.
func (r *replayed) drop(p []byte) (int, error) {
	for r.dropped < lingerBytes {
		n, err := r.Conn.Read(p)
		if r.dropped += n; err != nil {
			return 0, err
		}
	}
	return 0, io.EOF
}

// SetReadDeadline implements net.Conn.
func (r *replayed) SetReadDeadline(t time.Time) error {
	defer r.interrupt(t)
	return r.Conn.SetReadDeadline(t)
}

// SetDeadline implements net.Conn.
func (r *replayed) SetDeadline(t time.Time) error {
	defer r.interrupt(t)
	return r.Conn.SetDeadline(t)
}

// interrupt ends the wait of a Read if t is not later than now, else it is as if nobody
// had ended one.
func (r *replayed) interrupt(t time.Time) {
	if !t.IsZero() && !t.After(time.Now()) {
		select {
		case r.wake <- struct{}{}:
		default:
		}
		return
	}
	select {
	case <-r.wake:
	default:
	}
}

// Close implements net.Conn.
func (r *replayed) Close() error {
	defer r.interrupt(time.Unix(1, 0))
	return r.c.Close()
}

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

// Give hands a connection to the acceptor; it is closed if there is none.
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
