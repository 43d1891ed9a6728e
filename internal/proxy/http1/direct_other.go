//go:build !unix

package http1

import "net"

// Direct is a TCP connection to put below TLS.
type Direct struct{ *net.TCPConn }

// NewDirect makes one.
func NewDirect(c *net.TCPConn) *Direct { return &Direct{c} }

func (d *Direct) direct() *Direct { return nil }

func (d *Direct) hurry(bool) {} // never called
func (d *Direct) more(bool)  {} // never called
