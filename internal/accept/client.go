package accept

import "net/netip"

// Client is the address that a client counts as, for whatever is limited per client: an IPv4
// address counts as itself and an IPv6 address as its /64, since one host has all of that.
func Client(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is4() || !a.IsValid() {
		return a
	}
	p, err := a.Prefix(64)
	if err != nil {
		return a
	}
	return p.Addr()
}

// Source is the Client of a textual address with or without a port. All that is no address
// counts as one client.
func Source(addr string) netip.Addr {
	if ap, err := netip.ParseAddrPort(addr); err == nil {
		return Client(ap.Addr())
	}
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return netip.Addr{}
	}
	return Client(a)
}
