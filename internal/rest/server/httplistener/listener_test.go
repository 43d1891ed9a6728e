package httplistener

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/verge-edge/verge/internal/accept"
)

func TestListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(inner, 1, 1)
	dial := func() {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	dial()
	dial()
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	first.(*boundedConn).place.Known()
	if n := l.room.Held(); n != 1 {
		t.Fatalf("%d places are taken", n)
	}
	type accepted struct {
		conn net.Conn
		err  error
	}
	next := make(chan accepted, 1)
	accept := func() {
		c, err := l.Accept()
		next <- accepted{c, err}
	}
	go accept()
	// Closing twice frees one place, not two.
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	second := <-next
	if n := l.room.Held(); second.err != nil || n != 1 {
		t.Fatalf("second: %v, %d places are taken", second.err, n)
	}
	second.conn.(*boundedConn).place.Known()
	// An Accept that waits for room ends with the listener.
	go accept()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if third := <-next; !errors.Is(third.err, net.ErrClosed) {
		t.Errorf("third: %v", third.err)
	}
	_ = second.conn.Close()
}

// refusing is a listener whose Accept fails.
type refusing struct {
	net.Listener
	err error
}

func (r *refusing) Accept() (net.Conn, error) { return nil, r.err }

// A server of net/http goes on after an error that passes, and not after the end.
func TestAnErrorThatPasses(t *testing.T) {
	for _, err := range []error{syscall.ENOBUFS, net.ErrClosed} {
		l := New(&refusing{err: err}, 1, 1)
		_, got := l.Accept()
		var passing net.Error
		is := errors.As(got, &passing) && passing.Temporary()       //nolint:staticcheck // what net/http asks
		if !errors.Is(got, err) || is != (err == syscall.ENOBUFS) { //nolint:errorlint // one of the table
			t.Errorf("%v: %v, passing: %t", err, got, is)
		}
		if l.room.Held() > 0 {
			t.Errorf("%v takes a place", err)
		}
	}
}

// One source does not get all connections: what is more than its part is closed,
// and what others ask for comes through.
func TestOneSourceGetsAPart(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(inner, 8, 2)
	defer l.Close()
	dial := func(from string) net.Conn {
		t.Helper()
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	accept := func(from string) net.Conn {
		t.Helper()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if got := accept.Source(c.RemoteAddr().String()).String(); got != from {
			t.Fatalf("accepted %s, want %s", got, from)
		}
		return c
	}
	dial("127.0.0.1")
	dial("127.0.0.1")
	first := accept("127.0.0.1")
	first.(*boundedConn).place.Known()
	accept("127.0.0.1").(*boundedConn).place.Known()
	third := dial("127.0.0.1")
	dial("127.0.0.2")
	accept("127.0.0.2")
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Error("one too many was not closed")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	dial("127.0.0.1")
	accept("127.0.0.1")
	if n := l.room.Held(); n != 3 {
		t.Errorf("%d places are taken", n)
	}
}
