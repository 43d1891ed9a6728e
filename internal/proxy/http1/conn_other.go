//go:build !unix

package http1

import "syscall"

// rawReads: a connection is read here, so that it needs no buffer while it waits.
const rawReads = false

// None of them is used.
func (c *Conn) tryRead(uintptr) bool  { return true }
func (c *Conn) tryWrite(uintptr) bool { return true }
func (c *Conn) tryAsk(uintptr) bool   { return true }

// tryPeek knows of no way to look.
func (c *Conn) tryPeek(uintptr) bool {
	c.n, c.err = 0, syscall.EAGAIN
	return true
}
