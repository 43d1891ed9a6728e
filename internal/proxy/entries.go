package proxy

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/netconn"
)

// Waiting before an address that something else holds is tried again.
const (
	rebindFirst = 250 * time.Millisecond
	rebindMax   = 10 * time.Second
)

// entries owns the loopback listeners and the book of their ports.
type entries struct {
	host   string
	listen func(lc net.ListenConfig, name string) netconn.Listener
	log    *slog.Logger
	spawn  func(func(context.Context)) bool // false before Start and after Close
	handle func(context.Context, entryKey, *net.TCPConn)
	takes  func(k entryKey, c *net.TCPConn, release func()) bool // routed by request
	conns  netconn.Limiter

	mu   sync.Mutex // guards below; held while listening and storing
	book *ports
	open map[entryKey]*entry
	told bool // the routes are known, so entries without one or a promise are not wanted
	over bool // nothing is opened any more
}

// entry is one loopback address that should accept connections.
type entry struct {
	key   entryKey
	addr  string
	opens netconn.Listener

	// Guarded by entries.mu.
	routed   bool // in the current routes
	reserved bool // promised by Reserve and not withdrawn by a route since
	serving  bool // has its goroutine

	mu      sync.Mutex // guards below
	ln      net.Listener
	problem string // why there is no ln
	closed  bool
	done    chan struct{} // closed with closed
}

// listen binds the address unless the entry is closed.
func (e *entry) listen() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return net.ErrClosed
	}
	ln, err := e.opens.Listen(context.Background(), "tcp", e.addr)
	if err != nil {
		e.problem = err.Error()
		return err
	}
	e.ln, e.problem = ln, ""
	return nil
}

// listener returns what to accept on: nil where the address is not bound; false
// once the entry is closed.
func (e *entry) listener() (net.Listener, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ln, !e.closed
}

// close frees the address. Connections that were accepted go on.
func (e *entry) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.closed = true
	close(e.done)
	if e.ln != nil {
		_ = e.ln.Close() // its port is free either way
	}
}

// wait waits for d; false once the entry is closed.
func (e *entry) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-e.done:
		return false
	}
}

func (s *entries) newEntry(k entryKey, number int) *entry {
	// No keep-alive: both ends are on this machine, and nothing periodic should
	// come from connections that rest.
	opens := s.listen(net.ListenConfig{KeepAlive: -1}, "entry")
	return &entry{key: k, addr: net.JoinHostPort(s.host, strconv.Itoa(number)), opens: opens, done: make(chan struct{})}
}

// ensureLocked returns the open entry for k, with the number it always had or a
// new one.
func (s *entries) ensureLocked(k entryKey) (*entry, error) {
	if e := s.open[k]; e != nil {
		return e, nil
	}
	if s.over {
		return nil, failure.ErrClosed
	}
	var e *entry
	if n, known := s.book.Get(k); known {
		e = s.newEntry(k, n)
		if err := e.listen(); err != nil {
			// The address is promised to running instances: it is not exchanged
			// for another one but tried again.
			s.log.Error("loopback address cannot be listened on, trying again", "service", k.app+"."+k.service,
				"port", k.port, "addr", e.addr, "why", err)
		}
	} else {
		inUse := func(k entryKey) bool { return s.open[k] != nil }
		try := func(n int) error {
			e = s.newEntry(k, n)
			return e.listen()
		}
		if err := s.book.allocate(k, inUse, try); err != nil {
			return nil, fmt.Errorf("loopback address for %s: %w", k, err)
		}
	}
	s.open[k] = e
	s.startLocked(e)
	return e, nil
}

// startLocked gives the entry its goroutine, if the router runs.
func (s *entries) startLocked(e *entry) {
	if !e.serving {
		e.serving = s.spawn(func(ctx context.Context) { s.serve(ctx, e) })
	}
}

// start serves all entries that are open, and, as long as nobody told which are
// wanted, all of the book.
func (s *entries) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.open {
		s.startLocked(e)
	}
	if s.told {
		return
	}
	for _, rec := range slices.Clone(s.book.Records()) {
		if _, err := s.ensureLocked(rec.key()); err != nil {
			return // closed meanwhile: the numbers are all known
		}
	}
}

// set opens the entries of routed ports and closes those that were withdrawn.
func (s *entries) set(routed []entryKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = true
	in := make(map[entryKey]bool, len(routed))
	for _, k := range routed {
		in[k] = true
	}
	// First close, so that a full range has room.
	for k, e := range s.open {
		if !in[k] && (e.routed || !e.reserved) {
			e.close()
			delete(s.open, k)
		}
	}
	for _, k := range routed {
		e, err := s.ensureLocked(k)
		if err != nil {
			s.log.Error("service has no loopback address", "service", k.app+"."+k.service, "port", k.port, "why", err)
			continue
		}
		e.routed = true
	}
	if err := s.book.Save(); err != nil {
		s.log.Error("loopback addresses are not durable", "why", err)
	}
}

// reserve opens and durably notes the entries of a service.
func (s *entries) reserve(app, service string, ports []api.Port) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addrs := make(map[string]string, len(ports))
	for _, p := range ports {
		if p.Protocol == api.UDP {
			continue // the router carries connections alone
		}
		k := entryKey{app, service, portName(p)}
		e, err := s.ensureLocked(k)
		if err != nil {
			return nil, err
		}
		e.reserved = true
		addrs[k.port] = e.addr
	}
	if err := s.book.Save(); err != nil {
		return nil, err
	}
	return addrs, nil
}

// close frees all addresses.
func (s *entries) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for k, e := range s.open {
		e.close()
		delete(s.open, k)
	}
}

// list returns the open entries in order.
func (s *entries) list() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Entry, 0, len(s.open))
	for k, e := range s.open {
		e.mu.Lock()
		out = append(out, Entry{k.app, k.service, k.port, e.addr, e.problem})
		e.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Port, b.Port))
	})
	return out
}

// serve accepts connections until the entry is closed, and waits for those that
// it accepted.
func (s *entries) serve(ctx context.Context, e *entry) {
	defer context.AfterFunc(ctx, e.close)()
	var conns sync.WaitGroup
	defer conns.Wait()
	for delay := rebindFirst; ; delay = min(2*delay, rebindMax) {
		ln, open := e.listener()
		if !open {
			return
		}
		if ln != nil {
			netconn.AcceptAll(ln, e.wait, s.log, func(c *net.TCPConn) {
				if !s.conns.Take() {
					netconn.Cut(c)
					return
				}
				if s.takes(e.key, c, s.conns.Give) {
					return
				}
				conns.Go(func() {
					defer s.conns.Give()
					s.handle(ctx, e.key, c)
				})
			})
			return
		}
		// Half to all of the delay: several workers of one machine may want
		// addresses that one stranger held.
		if !e.wait(delay/2 + rand.N(delay/2)) {
			return
		}
		if e.listen() == nil {
			s.log.Info("loopback address is listened on", "service", e.key.app+"."+e.key.service, "port", e.key.port, "addr", e.addr)
		}
	}
}
