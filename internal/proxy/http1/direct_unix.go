//go:build unix

package http1

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
)

// Direct is a TCP connection to put below TLS. Its reads and writes go past the
// runtime's accounting of system calls, as those of Conn do.
type Direct struct {
	*net.TCPConn
	raw        syscall.RawConn // nil: it is used as it is
	rd, wr     move
	try, tryTo func(fd uintptr) bool
	now        bool        // see hurry
	follows    atomic.Bool // see more
}

func (d *Direct) direct() *Direct { return d }

// hurry has a Read not wait, as if its deadline were over. It is for the goroutine that reads.
func (d *Direct) hurry(now bool) { d.now = now }

// more says that another write follows at once, which the system may wait for.
func (d *Direct) more(follows bool) { d.follows.Store(follows) }

// move is what one direction is about.
type move struct {
	p   []byte
	n   int
	err error
}

// NewDirect makes one.
func NewDirect(c *net.TCPConn) *Direct {
	d := &Direct{TCPConn: c}
	if raw, err := c.SyscallConn(); err == nil {
		d.raw = raw
	}
	d.try, d.tryTo = d.tryRead, d.tryWrite
	return d
}

// Read implements net.Conn. It is for one goroutine at a time, as TLS has it.
func (d *Direct) Read(p []byte) (int, error) {
	if d.raw == nil || len(p) == 0 {
		return d.TCPConn.Read(p)
	}
	d.rd = move{p: p}
	err := d.raw.Read(d.try)
	m := d.rd
	d.rd = move{}
	if err == nil {
		err = m.err
	}
	return m.n, err
}

func (d *Direct) tryRead(fd uintptr) bool {
	m := &d.rd
	for {
		n, e := sysRead(fd, m.p)
		switch {
		case e == syscall.EINTR:
			continue
		case e == syscall.EAGAIN && d.now:
			m.err = os.ErrDeadlineExceeded // which TLS forgets, as it does with that of a deadline
		case e == syscall.EAGAIN:
			return false
		case e != 0:
			m.err = d.failed("read", e)
		case n == 0:
			m.err = io.EOF
		default:
			m.n = n
		}
		return true
	}
}

// Write implements net.Conn, for one goroutine at a time.
func (d *Direct) Write(p []byte) (int, error) {
	if d.raw == nil || len(p) == 0 {
		return d.TCPConn.Write(p)
	}
	d.wr = move{p: p}
	err := d.raw.Write(d.tryTo)
	m := d.wr
	d.wr = move{}
	if err == nil {
		err = m.err
	}
	return m.n, err
}

func (d *Direct) tryWrite(fd uintptr) bool {
	m, send := &d.wr, sysWrite
	if d.follows.Load() {
		send = sysWriteMore
	}
	for m.n < len(m.p) {
		n, e := send(fd, m.p[m.n:])
		switch {
		case e == syscall.EINTR:
		case e == syscall.EAGAIN:
			return false
		case e != 0:
			m.err = d.failed("write", e)
			return true
		default:
			m.n += n
		}
	}
	return true
}

func (d *Direct) failed(op string, e syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Source: d.LocalAddr(), Addr: d.RemoteAddr(), Err: os.NewSyscallError(op, e)}
}
