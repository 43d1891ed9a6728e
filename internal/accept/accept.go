// Package accept is what a server does with connections before anybody has said a word: it keeps
// accepting after errors that pass, bounds the connections of each client and of all together
// (Room), and knows which addresses count as one client (Client).
//
// The kernel reports errors of accept that concern one connection or one moment: no memory for
// another socket (ENOBUFS, ENOMEM), a network that went away while a client waited (ENETDOWN,
// EHOSTUNREACH and others, see accept(2)). A server of net/http waits out only a few of them and
// ends for good at the others, while its process goes on.
package accept

import (
	"errors"
	"net"
)

// Passing is an error of Accept as one that a server of net/http waits out, with pauses of
// up to a second. That the listener is closed stays what it is.
func Passing(err error) error {
	if err == nil || errors.Is(err, net.ErrClosed) {
		return err
	}
	return &passing{err}
}

// passing implements net.Error.
type passing struct{ error }

func (p *passing) Unwrap() error   { return p.error }
func (p *passing) Timeout() bool   { return false }
func (p *passing) Temporary() bool { return true }

// Listener is one whose errors of Accept are Passing.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return c, Passing(err)
}
