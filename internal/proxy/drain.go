package proxy

import (
	"context"
	"net"
	"time"
)

// drainLook is how often is looked whether a connection is left.
const drainLook = 100 * time.Millisecond

// Drain accepts no new connection from now on, answers the next request on each open one as its
// last, and returns nil when none is left. An idle client is not cut off early. Datagrams are no
// longer forwarded. If ctx is done first, its error is returned; Close cuts what is left.
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
