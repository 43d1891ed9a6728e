package entries

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

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/sockets"
)

// Waiting before an address that something else holds is tried again.
const (
	RebindFirst = 250 * time.Millisecond
	RebindMax   = 10 * time.Second
)

// Options are what entries are opened and served with.
type Options struct {
	Host string // where they listen
	// Listen is what opens a socket under a name.
	Listen func(lc net.ListenConfig, name string) sockets.Listener
	Log    *slog.Logger
	// Spawn runs a goroutine; false before the router starts and after it is closed.
	Spawn func(func(context.Context)) bool
	// Requests takes a connection to a port that is routed by request, and calls release
	// once when it has closed it; false: the port is routed by connection.
	Requests func(k Key, c *net.TCPConn, release func()) bool
	// Connection serves a connection to a port that is routed by connection.
	Connection func(context.Context, Key, *net.TCPConn)
	// MaxConns bounds the connections of all entries together.
	MaxConns int
	Book     *Ports
}

// Entries owns the loopback listeners and the book of their ports.
type Entries struct {
	opts  Options
	Conns sockets.Limiter

	mu   sync.Mutex // guards below, and the book; held while listening and storing
	open map[Key]*entry
	told bool // the routes are known, so entries without one or a promise are not wanted
	over bool // nothing is opened any more
}

// entry is one loopback address that should accept connections.
type entry struct {
	key   Key
	addr  string
	opens sockets.Listener

	// Guarded by Entries.mu.
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

// close frees the address. Accepted connections continue.
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

// New has no open entry yet.
func New(opts Options) *Entries {
	s := &Entries{opts: opts, open: map[Key]*entry{}}
	s.Conns.Max = int64(opts.MaxConns)
	return s
}

func (s *Entries) newEntry(k Key, number int) *entry {
	// No keep-alive: both ends are on this machine, and nothing periodic should
	// come from connections that rest.
	opens := s.opts.Listen(net.ListenConfig{KeepAlive: -1}, "entry")
	return &entry{key: k, addr: net.JoinHostPort(s.opts.Host, strconv.Itoa(number)), opens: opens,
		done: make(chan struct{})}
}

// ensureLocked returns the open entry for k, with the number it always had or a
// new one.
func (s *Entries) ensureLocked(k Key) (*entry, error) {
	if e := s.open[k]; e != nil {
		return e, nil
	}
	if s.over {
		return nil, failure.ErrClosed
	}
	var e *entry
	if n, known := s.opts.Book.Get(k); known {
		e = s.newEntry(k, n)
		if err := e.listen(); err != nil {
			// The address is promised to running instances: it is not exchanged
			// for another one but tried again.
			s.opts.Log.Error("loopback address cannot be listened on, trying again", "service", k.App+"."+k.Service,
				"port", k.Port, "addr", e.addr, "why", err)
		}
	} else {
		inUse := func(k Key) bool { return s.open[k] != nil }
		try := func(n int) error {
			e = s.newEntry(k, n)
			return e.listen()
		}
		if err := s.opts.Book.allocate(k, inUse, try); err != nil {
			return nil, fmt.Errorf("loopback address for %s: %w", k, err)
		}
	}
	s.open[k] = e
	s.startLocked(e)
	return e, nil
}

// startLocked gives the entry its goroutine, if the router runs.
func (s *Entries) startLocked(e *entry) {
	if !e.serving {
		e.serving = s.opts.Spawn(func(ctx context.Context) { s.serve(ctx, e) })
	}
}

// Start serves all entries that are open, and, as long as nobody told which are
// wanted, all of the book.
func (s *Entries) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.open {
		s.startLocked(e)
	}
	if s.told {
		return
	}
	for _, rec := range slices.Clone(s.opts.Book.Records()) {
		if _, err := s.ensureLocked(rec.key()); err != nil {
			return // closed meanwhile: the numbers are all known
		}
	}
}

// Set opens the entries of routed ports and closes those that were withdrawn.
func (s *Entries) Set(routed []Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = true
	in := make(map[Key]bool, len(routed))
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
			s.opts.Log.Error("service has no loopback address", "service", k.App+"."+k.Service, "port", k.Port, "why",
				err)
			continue
		}
		e.routed = true
	}
	if err := s.opts.Book.Save(); err != nil {
		s.opts.Log.Error("loopback addresses are not durable", "why", err)
	}
}

// Reserve opens and durably notes the entries of a service.
func (s *Entries) Reserve(app, service string, ports []string) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addrs := make(map[string]string, len(ports))
	for _, p := range ports {
		k := Key{App: app, Service: service, Port: p}
		e, err := s.ensureLocked(k)
		if err != nil {
			return nil, err
		}
		e.reserved = true
		addrs[k.Port] = e.addr
	}
	if err := s.opts.Book.Save(); err != nil {
		return nil, err
	}
	return addrs, nil
}

// Close frees all addresses.
func (s *Entries) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for k, e := range s.open {
		e.close()
		delete(s.open, k)
	}
}

// List returns the open entries in order.
func (s *Entries) List() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Entry, 0, len(s.open))
	for k, e := range s.open {
		e.mu.Lock()
		out = append(out, Entry{k.App, k.Service, k.Port, e.addr, e.problem})
		e.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Port, b.Port))
	})
	return out
}

// serve accepts connections until the entry is closed, and waits for those that
// it accepted.
func (s *Entries) serve(ctx context.Context, e *entry) {
	defer context.AfterFunc(ctx, e.close)()
	for delay := RebindFirst; ; delay = min(2*delay, RebindMax) {
		ln, open := e.listener()
		if !open {
			return
		}
		if ln != nil {
			s.accept(ctx, ln, e.key, e.wait)
			return
		}
		// Half to all of the delay: several workers of one machine may want
		// addresses that one stranger held.
		if !e.wait(delay/2 + rand.N(delay/2)) {
			return
		}
		if e.listen() == nil {
			s.opts.Log.Info("loopback address is listened on", "service", e.key.App+"."+e.key.Service, "port",
				e.key.Port, "addr", e.addr)
		}
	}
}
