//go:build unix

package http1

import (
	"io"
	"syscall"
)

// rawReads: a connection is read here, so that it needs no buffer while it waits.
const rawReads = true

// tryRead reads once without waiting; false: there is nothing yet.
func (c *Conn) tryRead(fd uintptr) bool {
	c.take()
	for {
		n, e := sysRead(fd, c.b[c.w:])
		switch {
		case e == syscall.EINTR:
			continue
		case e == syscall.EAGAIN:
			c.rest()
			return false
		case e != 0:
			c.n, c.err = 0, e
		case n == 0:
			c.n, c.err = 0, io.EOF
		default:
			c.n, c.err = n, nil
		}
		return true
	}
}

// tryWrite writes what is unsent without waiting; false: not all of it could be.
func (c *Conn) tryWrite(fd uintptr) bool {
	for len(c.unsent) > 0 {
		n, e := sysWrite(fd, c.unsent)
		switch {
		case e == syscall.EINTR:
		case e == syscall.EAGAIN:
			return false
		case e != 0:
			c.err = e
			return true
		default:
			c.unsent = c.unsent[n:]
		}
	}
	return true
}

// tryAsk writes what is unsent, and then reads when something comes. What came before
// would not be noticed, which an upstream does not say, or Pool.Get has looked for.
func (c *Conn) tryAsk(fd uintptr) bool {
	if c.asking == nil {
		return c.tryRead(fd)
	}
	if !c.tryWrite(fd) || c.err != nil {
		return true
	}
	c.asked()
	return false
}

// tryPeek looks whether a byte is there.
func (c *Conn) tryPeek(fd uintptr) bool {
	n, e := sysPeek(fd, &c.first)
	c.n, c.err = n, nil
	if e != 0 {
		c.n, c.err = 0, e
	}
	return true
}
