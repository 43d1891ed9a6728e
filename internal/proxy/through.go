package proxy

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/verge-edge/verge/internal/proxy/netconn"
)

// Serve takes connections that ln accepts as connections to a port of a service, as
// those to its loopback entry are, until ln is closed or the Router is. It returns
// at once.
func (r *Router) Serve(ln net.Listener, app, service, port string) {
	ok := r.spawn(func(ctx context.Context) {
		// Open listens; what was accepted goes on when it ends, as long as the Router.
		open, end := context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
		var conns sync.WaitGroup
		defer conns.Wait()
		netconn.AcceptAll(ending{ln, end}, netconn.WaitOrDone(open), r.log, func(c *net.TCPConn) {
			if !r.entries.conns.Take() {
				netconn.Cut(c)
				return
			}
			k := entryKey{app, service, port}
			if r.takesRequests(k, c, r.entries.conns.Give) {
				return
			}
			conns.Go(func() {
				defer r.entries.conns.Give()
				r.serveEntry(ctx, k, c)
			})
		})
	})
	if !ok {
		_ = ln.Close() // nobody serves it
	}
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
