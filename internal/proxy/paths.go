package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/netconn"
)

// Looking after connections to a worker that is believed dead.
const (
	// firstDoubt after its cluster began to doubt it, doubling to lastDoubt.
	firstDoubt = 10 * time.Second
	lastDoubt  = time.Minute
	// againDoubt is the pause between two probes that must both fail.
	againDoubt = 3 * time.Second
)

// paths are the open connections to and from other workers.
type paths struct {
	mu   sync.Mutex // guards below
	open map[*tls.Conn]string
	// dialled counts those of open by address.
	dialled map[string]int
	// doubted has the addresses that are looked after, see doubt: a value in the
	// channel says that it is out of the routes by now.
	doubted map[string]chan struct{}
}

// add notes a connection, with the address that was dialled or "" for one that
// was accepted. done forgets it.
func (p *paths) add(conn *tls.Conn, addr string) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open, p.dialled = map[*tls.Conn]string{}, map[string]int{}
	}
	p.open[conn] = addr
	p.dialled[addr]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, conn)
		if p.dialled[addr]--; p.dialled[addr] == 0 {
			delete(p.dialled, addr)
		}
	}
}

// to are the connections that were dialled to an address.
func (p *paths) to(addr string) (out []*tls.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn, a := range p.open {
		if a == addr {
			out = append(out, conn)
		}
	}
	return out
}

func (p *paths) all() (out []*tls.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		out = append(out, conn)
	}
	return out
}

// begin returns a channel if there are connections to an address that nobody looks
// after yet; end is to be called then. Who does already is told if it is gone.
func (p *paths) begin(addr string, gone bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.doubted[addr]; c != nil {
		if gone {
			netconn.Wake(c)
		}
		return nil
	}
	if p.dialled[addr] == 0 {
		return nil
	}
	if p.doubted == nil {
		p.doubted = map[string]chan struct{}{}
	}
	c := make(chan struct{}, 1)
	p.doubted[addr] = c
	return c
}

// end is called by who has looked after an address, with what begin has returned. False:
// just now it was said that it is gone, which is to be looked at before.
func (p *paths) end(addr string, left <-chan struct{}) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-left:
		return false
	default:
		delete(p.doubted, addr)
		return true
	}
}

// PeersChanged says that PeerAllowed may refuse who it allowed before: open
// connections to and from whom it refuses now are cut.
func (r *Router) PeersChanged() {
	if r.opts.PeerAllowed == nil {
		return
	}
	for _, conn := range r.paths.all() {
		if err := r.opts.PeerAllowed(conn.ConnectionState()); err != nil {
			r.log.Info("connection cut", "peer", conn.RemoteAddr().String(), "why", err)
			netconn.Cut(conn)
		}
	}
}

// doubt looks after the connections to a worker that its cluster does not believe
// to be there: gone, since an endpoint was taken out of the routes, or else
// suspect. They are cut only if the worker cannot be reached from here either: a
// worker that lost its cluster goes on serving, and an instance that drains is no
// reason to break what is open. Where that is known already when the endpoint is
// gone, two have said it, and they are cut at once: what was sent to a silent
// worker would only go on waiting.
func (r *Router) doubt(e *endpoint, gone bool) {
	if e.local || e.Address == "" {
		return
	}
	if gone && e.lost.Load() && r.withdrawn(e.Address) {
		r.cutAll(e)
		return
	}
	left := r.paths.begin(e.Address, gone)
	if left == nil {
		return
	}
	if !r.spawn(func(ctx context.Context) {
		r.lookAfter(ctx, e, gone, left)
		for !r.paths.end(e.Address, left) {
			r.lookAfter(ctx, e, true, left)
		}
	}) {
		r.paths.end(e.Address, left)
	}
}

func (r *Router) lookAfter(ctx context.Context, e *endpoint, gone bool, left <-chan struct{}) {
	wait := netconn.WaitOrDone(ctx)
	for pause := firstDoubt; ; pause = min(2*pause, lastDoubt) {
		if !gone {
			t := time.NewTimer(pause)
			select {
			case <-ctx.Done():
			case <-t.C:
			case <-left:
				gone = true
			}
			t.Stop()
		}
		if ctx.Err() != nil || len(r.paths.to(e.Address)) == 0 || (!gone && !r.suspected(e.Address)) {
			return
		}
		dead := !r.reaches(ctx, e)
		if dead && !(gone && r.withdrawn(e.Address)) {
			dead = wait(againDoubt) && !r.reaches(ctx, e)
		}
		switch {
		case dead && ctx.Err() == nil:
			r.cutAll(e)
			return
		case gone:
			return
		}
	}
}

// cutAll cuts what is open to the worker of an endpoint.
func (r *Router) cutAll(e *endpoint) {
	conns := r.paths.to(e.Address)
	if len(conns) > 0 {
		r.log.Info("connections cut: their worker is believed dead and does not answer", "worker", e.Worker, "address", e.Address, "connections", len(conns))
	}
	for _, conn := range conns {
		netconn.Cut(conn)
	}
}

// withdrawn says whether no endpoint behind an address is in the routes any more:
// its cluster has given up the worker, not only an instance of it.
func (r *Router) withdrawn(addr string) bool { return len(r.table.Load().byAddress[addr]) == 0 }

// reaches says whether the worker of an endpoint answers, whatever it says.
func (r *Router) reaches(ctx context.Context, e *endpoint) bool {
	conn, release, err := r.connect(ctx, e, e.service.firstPort(), forProbe)
	if err == nil {
		_ = conn.Close() // it was there, which is all that is asked
		release()
		return true
	}
	var oe *failure.OpenError
	return !errors.As(err, &oe) || oe.Blame != failure.BlameWorker
}

// suspected says whether an endpoint behind an address is suspect.
func (r *Router) suspected(addr string) bool {
	for _, e := range r.table.Load().byAddress[addr] {
		if e.service.isSuspect(e) {
			return true
		}
	}
	return false
}
