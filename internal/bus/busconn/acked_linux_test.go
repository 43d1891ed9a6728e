package busconn

import (
	"io"
	"net"
	"testing"
)

// What the other end's machine has not acknowledged is seen, and that it has.
func TestUnacked(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	socket, ok := dialed.(*net.TCPConn)
	if !ok {
		t.Fatalf("it is a %T", dialed)
	}
	if n, ok := unacked(socket); !ok || n != 0 {
		t.Fatalf("%d bytes before any was written, %v", n, ok)
	}
	// More than two sockets hold: the rest waits here as long as nobody reads.
	written := make(chan error, 1)
	go func() {
		_, err := socket.Write(make([]byte, 32<<20))
		written <- err
	}()
	for n := 0; n == 0; {
		if n, ok = unacked(socket); !ok {
			t.Fatal("it cannot be asked while it is written to")
		}
	}
	if _, err := io.CopyN(io.Discard, there, 32<<20); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	for n := 1; n > 0; {
		if n, ok = unacked(socket); !ok {
			t.Fatal("it cannot be asked when all was read")
		}
	}
	if err := there.Close(); err != nil {
		t.Fatal(err)
	}
	if err := socket.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok := unacked(socket); ok {
		t.Error("a socket that is closed says something")
	}
}
