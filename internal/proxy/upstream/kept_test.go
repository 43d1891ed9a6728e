package upstream

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/verge-edge/verge/internal/proxy/failure"
)

// pair is a connection that is kept, and its other end.
func pair(t *testing.T) (*Conn, net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, ln.Close()) }()
	dialed, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	far, err := ln.Accept()
	must(t, err)
	released := 0
	c := NewConn(dialed, func() { released++ })
	t.Cleanup(func() {
		_ = c.Close()
		_ = far.Close()
		if released != 1 {
			t.Errorf("it was released %d times", released)
		}
	})
	return c, far
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// say writes a request and has it answered.
func say(t *testing.T, c *Conn, far net.Conn) {
	t.Helper()
	buf := make([]byte, 1)
	_, err := c.Write([]byte("?"))
	must(t, err)
	_, err = io.ReadFull(far, buf)
	must(t, err)
	_, err = far.Write([]byte("!"))
	must(t, err)
	_, err = io.ReadFull(c, buf)
	must(t, err)
}

// Nothing is written to a connection whose end has come.
func TestAnEndedConnectionTakesNoRequest(t *testing.T) {
	c, far := pair(t)
	say(t, c, far)
	say(t, c, far)
	before := c.Writes.Load()
	must(t, far.(*net.TCPConn).CloseWrite())
	waitForNews(t, c)
	if _, err := c.Write([]byte("?")); !errors.Is(err, failure.ErrEnded) || c.Writes.Load() != before {
		t.Errorf("written to a connection that had ended: %v", err)
	}
}

// waitForNews waits until something has arrived, without reading it.
func waitForNews(t *testing.T, c *Conn) {
	t.Helper()
	must(t, c.raw.Read(func(uintptr) bool { return c.ended(false) }))
}

// One that says something before the first request is asked all the same: it may say why it
// takes none.
func TestWhatIsSaidFirst(t *testing.T) {
	c, far := pair(t)
	_, err := far.Write([]byte("-"))
	must(t, err)
	buf := make([]byte, 1)
	waitForNews(t, c)
	if _, err := c.Write([]byte("?")); err != nil {
		t.Errorf("the first request: %v", err)
	}
	_, err = io.ReadFull(far, buf)
	must(t, err)
	c.Barred.Store(true)
	if _, err := c.Write([]byte("?")); !errors.Is(err, failure.ErrEnded) {
		t.Errorf("a barred connection: %v", err)
	}
}
