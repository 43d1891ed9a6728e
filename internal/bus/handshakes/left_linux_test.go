package handshakes

import (
	"errors"
	"io"
	"net"
	"testing"
)

func TestLeft(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if left(c) {
		t.Error("a silent peer has left")
	}
	if _, err := peer.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if left(c) {
		t.Error("one that says something has left")
	} else if n, err := c.Read(b); n != 1 || err != nil {
		t.Errorf("what it said is not there: %v", err)
	}
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(b); !errors.Is(err, io.EOF) { // now it is known here
		t.Fatal(err)
	}
	if !left(c) {
		t.Error("one that has closed its end has not left")
	}
	near, far := net.Pipe()
	defer func() { _ = near.Close() }()
	_ = far.Close()
	if left(near) {
		t.Error("of a pipe nothing is known")
	}
}
