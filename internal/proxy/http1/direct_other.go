//go:build !unix

package http1

import "net"

// Direct is a TCP connection to put below TLS.
type Direct struct{ *net.TCPConn }

// NewDirect makes one.
func NewDirect(c *net.TCPConn) *Direct { return &Direct{c} }
