package accept

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
)

// faulty fails some times.
type faulty struct {
	net.Listener
	left atomic.Int32
}

func (f *faulty) Accept() (net.Conn, error) {
	if f.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.ENOBUFS}
	}
	return f.Listener.Accept()
}

// A server answers after an error that has passed, and ends with its listener.
func TestAServerOutlivesAnError(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &faulty{Listener: inner}
	l.left.Store(2)
	srv := &http.Server{Handler: http.NotFoundHandler()} //nolint:gosec // of this test alone
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(Listener(l)) }()
	res, err := http.Get("http://" + inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close() // of no interest
	if err := inner.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("it ended with %v", err)
	}
	if err := Passing(syscall.ENOMEM); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("%v is another error now", err)
	}
}
