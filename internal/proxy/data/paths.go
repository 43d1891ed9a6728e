package data

import (
	"crypto/tls"
	"log/slog"
	"sync"

	"github.com/verge-edge/verge/internal/proxy/netconn"
)

// Paths are the open connections to and from other workers.
type Paths struct {
	mu   sync.Mutex // guards below
	open map[*tls.Conn]string
	// dialled counts those of open by address.
	dialled map[string]int
	// doubted has the addresses that are looked after, see doubt: a value in the
	// channel says that it is out of the routes by now.
	doubted map[string]chan struct{}
}

// Add notes a connection, with the address that was dialled or "" for one that
// was accepted. done forgets it.
func (p *Paths) Add(conn *tls.Conn, addr string) (done func()) {
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

// Doubts is how many addresses are looked after.
func (p *Paths) Doubts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.doubted)
}

// To are the connections that were dialled to an address.
func (p *Paths) To(addr string) (out []*tls.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn, a := range p.open {
		if a == addr {
			out = append(out, conn)
		}
	}
	return out
}

// All are the open connections, dialled or accepted.
func (p *Paths) All() (out []*tls.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		out = append(out, conn)
	}
	return out
}

// Begin returns a channel if an address has connections that are not yet watched; call End then.
// An existing watcher is notified if the peer is gone.
func (p *Paths) Begin(addr string, gone bool) <-chan struct{} {
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

// End is called by the watcher of an address, with what Begin has returned. False: the peer was
// just reported as gone, which is to be handled first.
func (p *Paths) End(addr string, left <-chan struct{}) bool {
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

// CutRefused cuts the connections to and from whom allowed refuses now.
func (p *Paths) CutRefused(allowed func(tls.ConnectionState) error, log *slog.Logger) {
	for _, conn := range p.All() {
		if err := allowed(conn.ConnectionState()); err != nil {
			log.Info("connection cut", "peer", conn.RemoteAddr().String(), "why", err)
			netconn.Cut(conn)
		}
	}
}
