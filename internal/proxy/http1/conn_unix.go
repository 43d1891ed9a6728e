//go:build unix

package http1

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix" // the system's own: flags that the standard library does not have
)

// rawReads: a connection is read here, so that it needs no buffer while it waits.
const rawReads = true

// tryRead reads once without waiting; false: there is nothing yet.
func (c *Conn) tryRead(fd uintptr) bool {
	c.take()
	for {
		n, err := syscall.Read(int(fd), c.b[c.w:])
		switch {
		case err == syscall.EINTR: //nolint:errorlint // as the system says it
			continue
		case err == syscall.EAGAIN: //nolint:errorlint // as the system says it
			c.rest()
			return false
		case err != nil:
			c.n, c.err = 0, err
		case n == 0:
			c.n, c.err = 0, io.EOF
		default:
			c.n, c.err = n, nil
		}
		return true
	}
}

// tryPeek looks whether a byte is there.
func (c *Conn) tryPeek(fd uintptr) bool {
	n, _, err := unix.Recvfrom(int(fd), c.first[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	c.n, c.err = n, err
	return true
}
