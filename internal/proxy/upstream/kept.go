package upstream

import (
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/netconn"
)

// Conn is a connection that serves one request after the other. Before the
// first byte of a request it looks whether the other side has closed it: its end
// may have arrived already although nobody has read it yet, and what is written
// then is lost without anybody knowing how far it got.
type Conn struct {
	netconn.HeldConn
	raw syscall.RawConn // nil where there is none: nothing is noticed then

	tls      bool
	used     atomic.Bool  // something was written to it
	answered atomic.Bool  // something was read since the last write
	Upgraded atomic.Bool  // requests and answers no longer alternate
	Barred   atomic.Bool  // nothing may be written any more
	Writes   atomic.Int64 // begun
}

// NewConn keeps conn; release is called once when it is closed.
func NewConn(conn net.Conn, release func()) *Conn {
	c := &Conn{HeldConn: netconn.HeldConn{Conn: conn, Release: release}}
	if t, ok := conn.(*tls.Conn); ok {
		conn, c.tls = t.NetConn(), true
	}
	if s, ok := conn.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			c.raw = raw
		}
	}
	return c
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.answered.Store(true)
	}
	return n, err
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	fresh := !c.used.Swap(true)
	if c.Barred.Load() || ((c.answered.Swap(false) || fresh) && !c.Upgraded.Load() && c.ended(fresh)) {
		return 0, failure.ErrEnded
	}
	c.Writes.Add(1)
	return c.Conn.Write(p)
}

// ended says whether there is anything to read. Between two requests that can
// only be the end, or something that nobody has asked for; before the first one an
// instance may say at once why it takes none. (Over TLS only another router is there.)
func (c *Conn) ended(fresh bool) bool {
	if c.raw == nil {
		return false
	}
	var n int
	var err error
	if cerr := c.raw.Control(func(fd uintptr) {
		n, _, err = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	}); cerr != nil {
		return true
	}
	if fresh && !c.tls && n > 0 {
		return false
	}
	return !errors.Is(err, syscall.EAGAIN)
}

// MaxIdleTries connections are tried for a request before one is opened for it: who serves
// may end a kept one whenever it likes, and that says nothing about it.
const MaxIdleTries = 2
