//go:build !unix

package http1

import "syscall"

// rawReads: a connection is read here, so that it needs no buffer while it waits.
const rawReads = false

func (c *Conn) tryRead(uintptr) bool { return true } // not used

// tryPeek knows of no way to look.
func (c *Conn) tryPeek(uintptr) bool {
	c.n, c.err = 0, syscall.EAGAIN
	return true
}
