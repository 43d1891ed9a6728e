package rest

import (
	"errors"
	"net"
	"testing"
)

func TestBoundedListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := boundListener(inner, 1)
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
	if len(l.slots) != 1 {
		t.Fatalf("%d slots are taken", len(l.slots))
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
	// Closing twice frees one slot, not two.
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	second := <-next
	if second.err != nil || len(l.slots) != 1 {
		t.Fatalf("second: %v, %d slots are taken", second.err, len(l.slots))
	}
	// An Accept that waits for a slot ends with the listener.
	go accept()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if third := <-next; !errors.Is(third.err, net.ErrClosed) {
		t.Errorf("third: %v", third.err)
	}
	_ = second.conn.Close()
}
