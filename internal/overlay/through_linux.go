package overlay

import (
	"net"
	"net/netip"
)

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
		if tcp, ok := c.(*net.TCPConn); ok && l.n.mayReach(l.key, tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()) {
			return c, nil
		} else if ok {
			_ = tcp.SetLinger(0) // a reset; it fails only on a closed connection
		}
		l.n.log.Debug("a connection of another application was refused", "service", l.key.app+"."+l.key.service, "from", c.RemoteAddr())
		_ = c.Close()
	}
}

// mayReach says whether who has an address may reach a service: the machine itself, the
// instances of the service's application, and all where the service is exported.
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
