package rest

import (
	"net"
	"net/netip"
	"sync"

	"github.com/verge-edge/verge/internal/accept"
)

// boundedListener accepts at most cap(slots) connections at a time; further
// ones wait in the kernel's queue until one is closed. Of one source it holds at
// most each, and closes what is more, so that one cannot keep all others waiting.
type boundedListener struct {
	net.Listener
	slots chan struct{}
	each  int
	done  chan struct{}
	once  sync.Once

	mu sync.Mutex
	by map[netip.Prefix]int // connections by source, guarded by mu
}

func boundListener(l net.Listener, n, each int) *boundedListener {
	return &boundedListener{Listener: l, slots: make(chan struct{}, n), each: each, done: make(chan struct{}), by: map[netip.Prefix]int{}}
}

// Accept waits for a free slot, then for a connection.
func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.slots
			return nil, accept.Passing(err)
		}
		from := sourceOf(c.RemoteAddr().String())
		if l.enter(from) {
			return &boundedConn{Conn: c, release: sync.OnceFunc(func() { l.leave(from); <-l.slots })}, nil
		}
		_ = c.Close() // nothing was said yet
	}
}

func (l *boundedListener) enter(from netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[from] >= l.each {
		return false
	}
	l.by[from]++
	return true
}

func (l *boundedListener) leave(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[from]--; l.by[from] == 0 {
		delete(l.by, from)
	}
}

// Close also ends an Accept that waits for a slot.
func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

type boundedConn struct {
	net.Conn
	release func()
}

// Close frees the connection's slot, once.
func (c *boundedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
