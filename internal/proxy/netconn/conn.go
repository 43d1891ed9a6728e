package netconn

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/proxy/counters"
)

// HeldConn gives something back when it is closed.
type HeldConn struct {
	net.Conn
	Client  net.Addr // nil: the other side is the client
	once    sync.Once
	Release func()
}

// RemoteAddr is the client's, also where a balancer is between.
func (c *HeldConn) RemoteAddr() net.Addr {
	if c.Client != nil {
		return c.Client
	}
	return c.Conn.RemoteAddr()
}

// Close implements net.Conn.
func (c *HeldConn) Close() error {
	defer c.once.Do(c.Release)
	return c.Conn.Close()
}

// CloseWrite passes a half-close on, which upgraded connections use.
func (c *HeldConn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Below is the connection that it holds.
func (c *HeldConn) Below() net.Conn { return c.Conn }

// SyscallConn implements syscall.Conn, where the connection below does.
func (c *HeldConn) SyscallConn() (syscall.RawConn, error) { return rawOf(c.Conn) }

// CountedConn is a client's connection whose bytes are counted, and which breaks when
// the client takes nothing for too long.
type CountedConn struct {
	net.Conn
	Traffic *counters.Bytes
	// Timeout with a client that takes nothing; 0: for ever.
	Timeout time.Duration
	// timed: who uses it has set a time for writing, which counts.
	timed atomic.Bool
}

// Read implements net.Conn.
func (c *CountedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.Traffic.Received.Add(uint64(max(n, 0)))
	return n, err
}

// Write implements net.Conn.
func (c *CountedConn) Write(p []byte) (int, error) {
	if c.Timeout > 0 && !c.timed.Load() {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(c.Timeout)) // one that is closed says so when it is written to
	}
	n, err := c.Conn.Write(p)
	c.Traffic.Sent.Add(uint64(max(n, 0)))
	return n, err
}

// SetWriteDeadline implements net.Conn.
func (c *CountedConn) SetWriteDeadline(t time.Time) error {
	c.timed.Store(!t.IsZero())
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *CountedConn) SetDeadline(t time.Time) error {
	c.timed.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}

// Cut cuts the connection below.
func (c *CountedConn) Cut() { Cut(c.Conn) }

// CloseWrite passes a half-close on, which upgraded connections use.
func (c *CountedConn) CloseWrite() error {
	CloseWrite(c.Conn)
	return nil
}

// Below is the connection that it counts.
func (c *CountedConn) Below() net.Conn { return c.Conn }

// SyscallConn implements syscall.Conn, where the connection below does.
func (c *CountedConn) SyscallConn() (syscall.RawConn, error) { return rawOf(c.Conn) }

func rawOf(c net.Conn) (syscall.RawConn, error) {
	if s, ok := c.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// When the kernel notices that a peer is gone.
const (
	// A peer that is gone without a word is noticed by the kernel after about
	// deadPeer, whether or not anything is on its way to it. Long enough for a link
	// that is away for a while.
	deadPeer      = 3 * time.Minute
	peerIdle      = time.Minute // before the first probe of the kernel
	peerInterval  = 20 * time.Second
	peerIntervals = 6
)

// KeepPeer has the kernel notice when the other side of a connection to or from
// another worker is gone.
func KeepPeer(c *net.TCPConn) {
	// What cannot be set leaves the defaults, which notice it later.
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: peerIdle, Interval: peerInterval,
		Count: peerIntervals})
	_ = boundUnacknowledged(c, deadPeer)
}

// CloseWrite tells the peer of c that nothing more comes. An error means that c
// is gone, which its reader finds out.
func CloseWrite(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
	}
}

// cutter is a connection around another one, which it cuts.
type cutter interface{ Cut() }

// Cut ends c so that its peer can tell it from a regular end: a TCP connection
// is reset; a TLS connection ends without its closing alert, for which the peer
// has strictConn (a reset would discard what is on its way).
func Cut(c net.Conn) {
	switch c := c.(type) {
	case *net.TCPConn:
		_ = c.SetLinger(0) // fails only on a closed connection
		_ = c.Close()
	case *tls.Conn:
		_ = c.NetConn().Close()
	case cutter:
		c.Cut()
	default:
		_ = c.Close()
	}
}

// Wake puts a value into a channel with a buffer of one, unless one waits there.
func Wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is waiting already
	}
}
