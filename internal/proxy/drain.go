package proxy

import (
	"context"
	"net"
	"time"
)

// drainLook is how often is looked whether a connection is left.
const drainLook = 100 * time.Millisecond

// Drain takes no new connection from now on, lets the next request over each open one be
// its last, and returns nil when none is left. A client that rests is not cut off before
// its time. Datagrams are not passed on any more. If ctx is done before, its error is
// returned; Close cuts what is left.
func (r *Router) Drain(ctx context.Context) error {
	r.draining.Store(true)
	r.entries.Close()
	r.gateway.Ports.Close()
	r.mu.Lock()
	for _, ln := range []net.Listener{r.dataLn, r.gateLn, r.tlsLn} {
		if ln != nil {
			_ = ln.Close() // nothing was written to it
		}
	}
	r.mu.Unlock()
	look := time.NewTicker(drainLook)
	defer look.Stop()
	for r.Connections() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
	return nil
}

// Connections is how many are open, of clients here and of other routers.
func (r *Router) Connections() int {
	return r.entries.Conns.Open() + r.data.Conns.Open() + r.gateway.Conns.Open()
}
