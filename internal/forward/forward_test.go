package forward

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// bed is a client and a server with one way between, and what the server dials.
type bed struct {
	t      *testing.T
	client *Client
	way    net.Conn
	served chan error
}

func newBed(ctx context.Context, t *testing.T, dial func(context.Context, string) (net.Conn, error)) *bed {
	t.Helper()
	a, b := net.Pipe()
	c, err := NewClient(a)
	if err != nil {
		t.Fatal(err)
	}
	x := &bed{t: t, client: c, way: b, served: make(chan error, 1)}
	go func() { x.served <- Serve(ctx, b, dial) }()
	t.Cleanup(func() {
		c.Close()
		t.Log("it served until", <-x.served)
	})
	return x
}

// listen runs serve for each connection to the address that it returns.
func listen(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				serve(c.(*net.TCPConn))
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

// to dials addr for the port "http" and nothing else.
func to(addr string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, port string) (net.Conn, error) {
		if port != "http" {
			return nil, fmt.Errorf("there is no port %q", port)
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
}

// local is a connection of a user that is carried to "http".
func (x *bed) local(ctx context.Context) *net.TCPConn {
	x.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		x.t.Fatal(err)
	}
	defer l.Close()
	mine, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		x.t.Fatal(err)
	}
	its, err := l.Accept()
	if err != nil {
		x.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = x.client.Carry(ctx, its, "http") // seen at the connection
	}()
	x.t.Cleanup(func() {
		_ = mine.Close()
		<-done
	})
	return mine.(*net.TCPConn)
}

// The instance answers only when it has seen the end of what it is sent, and the
// other way round; many at a time, more than a window each.
func TestBothDirectionsEndApart(t *testing.T) {
	addr := listen(t, func(c *net.TCPConn) {
		all, err := io.ReadAll(c)
		if err == nil {
			_, _ = c.Write(bytes.ToUpper(all))
		}
	})
	x := newBed(t.Context(), t, to(addr))
	var all sync.WaitGroup
	for i := range 8 {
		c := x.local(t.Context())
		all.Go(func() {
			text := strings.Repeat(fmt.Sprintf("connection %d\n", i), 50_000)
			go func() {
				_, _ = io.WriteString(c, text) // the answer says
				_ = c.CloseWrite()
			}()
			got, err := io.ReadAll(c)
			if err != nil || string(got) != strings.ToUpper(text) {
				t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
			}
		})
	}
	all.Wait()

	sent := make(chan string, 1)
	first := listen(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "hello")
		_ = c.CloseWrite()
		all, _ := io.ReadAll(c)
		sent <- string(all)
	})
	y := newBed(t.Context(), t, to(first))
	c := y.local(t.Context())
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := io.WriteString(c, "goodbye"); err != nil {
		t.Error(err)
	}
	_ = c.CloseWrite()
	if got := <-sent; got != "goodbye" {
		t.Errorf("after its own end it was sent %q", got)
	}
}

// One that nobody reads holds up itself and no other.
func TestOneThatStallsHoldsUpNoOther(t *testing.T) {
	stalled, reached := make(chan struct{}), make(chan struct{})
	echo := listen(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
	deaf := listen(t, func(*net.TCPConn) { close(reached); <-stalled })
	t.Cleanup(func() { close(stalled) })
	next := deaf
	var mu sync.Mutex
	x := newBed(t.Context(), t, func(ctx context.Context, port string) (net.Conn, error) {
		mu.Lock()
		addr := next
		next = echo
		mu.Unlock()
		return to(addr)(ctx, port)
	})
	ctx, cancel := context.WithCancel(t.Context())
	stuck := x.local(ctx)
	<-reached
	const far = 64 << 20 // more than windows and the buffers of the kernel hold
	written := make(chan int64)
	go func() {
		n, _ := io.CopyN(stuck, rand.Reader, far)
		written <- n
	}()
	c := x.local(t.Context())
	text := strings.Repeat("still there\n", 100_000)
	go func() {
		_, _ = io.WriteString(c, text)
		_ = c.CloseWrite()
	}()
	if got, err := io.ReadAll(c); err != nil || string(got) != text {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	cancel()
	if n := <-written; n == far {
		t.Error("nothing held up who sends to somebody that does not read")
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	x := newBed(t.Context(), t, func(_ context.Context, port string) (net.Conn, error) {
		return nil, errors.New("there is no port " + port)
	})
	a, b := net.Pipe()
	if err := x.client.Carry(t.Context(), a, "nothing"); err == nil || err.Error() != "there is no port nothing" {
		t.Errorf("%v", err)
	}
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("its connection is open: %v", err)
	}
	// Something else than Serve at the other end.
	p, q := net.Pipe()
	c, err := NewClient(p)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() {
		_, _ = q.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		_, _ = io.Copy(io.Discard, q)
	}()
	a, _ = net.Pipe()
	if err := c.Carry(t.Context(), a, "http"); err == nil {
		t.Error("something else was taken for the other end")
	}
}

// What one client could not open, because its other end does not answer any more, another
// one carries: nothing of it is lost.
func TestTheNextClientCarries(t *testing.T) {
	p, q := net.Pipe()
	dead, err := NewClient(p)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	go func() {
		_, _ = q.Read(make([]byte, 1)) // it is asked, and dies
		close(asked)
		_, _ = io.Copy(io.Discard, q)
	}()
	its, mine := net.Pipe()
	defer mine.Close()
	tried := make(chan error, 1)
	go func() { tried <- dead.Carry(t.Context(), its, "http") }()
	<-asked
	dead.Close()
	if err := <-tried; !errors.Is(err, ErrEnded) {
		t.Fatalf("%v", err)
	}
	if err := dead.Carry(t.Context(), its, "http"); !errors.Is(err, ErrEnded) {
		t.Fatalf("of a client that has ended: %v", err)
	}
	x := newBed(t.Context(), t, to(listen(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c) })))
	go func() { tried <- x.client.Carry(t.Context(), its, "http") }()
	if _, err := mine.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(io.LimitReader(mine, 1)); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	_ = mine.Close()
	if err := <-tried; err != nil {
		t.Error(err)
	}
}

// When the way ends, or who serves, so do all connections; a reset is passed on.
func TestEnds(t *testing.T) {
	reset := listen(t, func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 1))
		_ = c.SetLinger(0)
	})
	x := newBed(t.Context(), t, to(reset))
	c := x.local(t.Context())
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("what was reset ends with %v", err)
	}
	echo := listen(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the instance has ended")
	y := newBed(ctx, t, to(echo))
	d := y.local(t.Context())
	if _, err := d.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(d, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel(gone)
	if _, err := d.Read(make([]byte, 1)); err == nil {
		t.Error("a connection goes on without who serves it")
	}
	if err := <-y.served; !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	y.served <- nil // for the clean-up
}

func TestTooMany(t *testing.T) {
	echo := listen(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
	x := newBed(t.Context(), t, to(echo))
	for range MaxConnections {
		c := x.local(t.Context())
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := net.Pipe()
	if err := x.client.Carry(t.Context(), a, "http"); err == nil {
		t.Error("one more than the most was opened")
	}
}
