package overlay

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// throughKept is how long a port of the router stays open after its last rule is gone:
// connections from just before may still be on their way, and their receiver may be waiting for a
// processor.
const throughKept = 5 * time.Second

// throughKey names a port of a service.
type throughKey struct{ app, service, port string }

// throughPort is where connections go that the router is to take further.
type throughPort struct {
	at6, at4 netip.AddrPort
	close    []net.Listener
	unused   time.Time // since when no rule leads there; zero: one does
	failed   bool      // one of them could not be opened, and is tried again
}

// throughLocked opens the port of a service at the worker's own addresses. A process that
// takes the network over has it from the one before: what was sent to it there by rules of
// that one is accepted here.
func (n *Network) throughLocked(k throughKey) *throughPort {
	t := n.through[k]
	switch {
	case t == nil:
		t = &throughPort{}
		n.through[k] = t
	case !t.failed:
		return t
	}
	told := t.failed
	t.failed = false
	by := n.opener("through " + k.app + "." + k.service + " " + k.port)
	for _, a := range []netip.Addr{n.space.Host6, n.space.Host4} {
		at := &t.at6
		if a.Is4() {
			at = &t.at4
		}
		if !a.IsValid() || at.IsValid() {
			continue
		}
		ln, err := by.Listen(context.Background(), "tcp", netip.AddrPortFrom(a, 0).String())
		if err != nil {
			if !told {
				n.log.Warn("instances of other workers are not reached, it is tried again", "service",
					k.app+"."+k.service, "error", err)
			}
			t.failed = true
			n.againLocked(retryAfter) // this process may have been out of descriptors
			continue
		}
		*at = netip.AddrPortFrom(a, uint16(ln.Addr().(*net.TCPAddr).Port)) //nolint:gosec // a port
		t.close = append(t.close, ln)
		n.opts.Through(&throughListener{ln, n, k}, k.app, k.service, k.port)
	}
	return t
}

// dropThroughLocked closes the ports that no rule has led to for a while. It is called when
// the rules are written, and says when to call it again; 0: there is no need.
func (n *Network) dropThroughLocked(inUse map[throughKey]bool) (wait time.Duration) {
	now := time.Now()
	for k, t := range n.through {
		if inUse[k] {
			t.unused = time.Time{}
			continue
		}
		if t.unused.IsZero() {
			t.unused = now
		}
		if rest := throughKept - now.Sub(t.unused); rest > 0 {
			if wait == 0 || rest < wait {
				wait = rest
			}
			continue
		}
		n.closeThroughLocked(k)
	}
	return wait
}

// closeThroughLocked closes a port of the router.
func (n *Network) closeThroughLocked(k throughKey) {
	for _, ln := range n.through[k].close {
		_ = ln.Close() // nothing is written to it
	}
	delete(n.through, k)
}

// throughListener accepts connections for a service from who may reach it. Its packets
// end at the machine, where no rule knows for whom they are: an instance of another
// application that has guessed the address of the service would get through.
type throughListener struct {
	net.Listener
	n   *Network
	key throughKey
}

// Accept implements net.Listener.
func (l *throughListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if tcp, ok := c.(*net.TCPConn); ok && l.n.mayReach(l.key,
			tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()) {
			return c, nil
		} else if ok {
			_ = tcp.SetLinger(0) // a reset; it fails only on a closed connection
		}
		l.n.log.Debug("a connection of another application was refused", "service", l.key.app+"."+l.key.service, "from",
			c.RemoteAddr())
		_ = c.Close()
	}
}

// mayReach says whether an address may reach a service: the machine itself, the instances of the
// service's application, and everybody if the service is exported.
func (n *Network) mayReach(k throughKey, from netip.Addr) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.routes[k.app+"."+k.service]
	if r != nil && r.Export {
		return true
	}
	for _, a := range n.attached {
		if a.addr6 == from || a.addr4 == from {
			return a.App == k.app
		}
	}
	// An address of an instance that has just gone is nobody's.
	of := func(p netip.Prefix, host netip.Addr) bool { return p.IsValid() && p.Contains(from) && from != host }
	return n.space == nil || !of(n.space.Worker, n.space.Host6) && !of(n.space.Worker4, n.space.Host4)
}
