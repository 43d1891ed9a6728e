package entries

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/proxy/sockets"
)

// ServeListener takes connections that ln accepts as those to a port's entry, until ln is
// closed or the router is. It returns at once.
func (s *Entries) ServeListener(ln net.Listener, k Key) {
	ok := s.opts.Spawn(func(ctx context.Context) {
		// Open listens; accepted connections outlive it, until the router ends.
		open, end := context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
		s.accept(ctx, ending{ln, end}, k, sockets.WaitOrDone(open))
	})
	if !ok {
		_ = ln.Close() // nobody serves it
	}
}

// accept serves what ln accepts until wait says that it is over, and waits for that.
func (s *Entries) accept(ctx context.Context, ln net.Listener, k Key, wait func(time.Duration) bool) {
	var conns sync.WaitGroup
	defer conns.Wait()
	sockets.AcceptAll(ln, wait, s.opts.Log, func(c *net.TCPConn) {
		if !s.Conns.Take() {
			netconn.Cut(c)
			return
		}
		if s.opts.Requests(k, c, s.Conns.Give) {
			return
		}
		conns.Go(func() {
			defer s.Conns.Give()
			s.opts.Connection(ctx, k, c)
		})
	})
}

// ending says when its listener was closed.
type ending struct {
	net.Listener
	end func()
}

// Accept implements net.Listener.
func (l ending) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if errors.Is(err, net.ErrClosed) {
		l.end()
	}
	return c, err
}
