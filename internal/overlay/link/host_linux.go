package link

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Network is one that the machine is in or has a route to.
type Network struct {
	Prefix netip.Prefix
	// Device is "" for a route that has none.
	Device string
}

// TunnelMTU is the packet size that fits the devices of the default routes, if a tunnel adds so
// much to each packet: between DefaultMTU, which all paths carry, and most.
func (l *Links) TunnelMTU(adds, most int) (int, error) {
	routes, err := l.host.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN},
		netlink.RT_FILTER_TABLE)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return 0, fmt.Errorf("list routes: %w", err)
	}
	mtu := most
	for _, r := range routes {
		if r.Dst != nil {
			if ones, _ := r.Dst.Mask.Size(); ones > 0 {
				continue
			}
		}
		dev, err := l.host.LinkByIndex(r.LinkIndex)
		if err != nil {
			continue // gone meanwhile, or a route by several
		}
		mtu = min(mtu, dev.Attrs().MTU-adds)
	}
	return max(mtu, DefaultMTU), nil
}

// Networks of the machine, without those of this worker's devices, and without
// default, multicast, link-local and loopback ones.
func (l *Links) Networks() ([]Network, error) {
	links, err := l.host.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	names := make(map[int]string, len(links))
	for _, d := range links {
		names[d.Attrs().Index] = d.Attrs().Name
	}
	var out []Network
	add := func(p netip.Prefix, index int) {
		a := p.Addr()
		if p.Bits() == 0 || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast() ||
			strings.HasPrefix(names[index], l.Own("")) {
			return
		}
		out = append(out, Network{p, names[index]})
	}
	addrs, err := l.host.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addrs {
		if p, ok := prefix(a.IP, a.Mask); ok {
			add(p, a.LinkIndex)
		}
	}
	routes, err := l.host.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN},
		netlink.RT_FILTER_TABLE)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		if p, ok := prefix(r.Dst.IP, r.Dst.Mask); ok {
			add(p, r.LinkIndex)
		}
	}
	return out, nil
}

func prefix(ip, mask []byte) (netip.Prefix, bool) {
	a, ok := netip.AddrFromSlice(ip)
	if !ok {
		return netip.Prefix{}, false
	}
	bits := 0
	for _, b := range mask {
		for ; b&0x80 != 0; b <<= 1 {
			bits++
		}
	}
	if a.Is4In6() && len(mask) == 16 {
		bits -= 96
	}
	a = a.Unmap()
	return netip.PrefixFrom(a, min(bits, a.BitLen())).Masked(), true
}

// Host gives a device of the worker (which is there) its addresses, and leads
// networks to it: packets to service addresses for which there is no rule go there,
// and those of the machine itself get the right source. What the device had
// besides goes.
func (l *Links) Host(device string, own []netip.Addr, networks []netip.Prefix) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	dev, err := l.host.LinkByName(device)
	if err != nil {
		return fmt.Errorf("device %s: %w", device, err)
	}
	for _, set := range []struct{ path, value string }{
		{"ipv6/conf/" + device + "/disable_ipv6", "0"},
		{"ipv6/conf/" + device + "/accept_ra", "0"},
		{"ipv6/conf/" + device + "/accept_dad", "0"},
		{"ipv6/conf/" + device + "/addr_gen_mode", "1"},
		// What user space writes back has the source of an instance. Not 0, which the
		// setting for all devices may overrule: of the two the greater counts.
		{"ipv4/conf/" + device + "/rp_filter", "2"},
		{"ipv4/conf/" + device + "/accept_local", "1"}, // or of the machine itself
		{"ipv4/conf/" + device + "/forwarding", "1"},
	} {
		if err := sysctl(set.path, set.value); err != nil {
			return err
		}
	}
	if err := l.host.LinkSetUp(dev); err != nil {
		return fmt.Errorf("switch %s on: %w", device, err)
	}
	had, err := l.host.AddrList(dev, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("addresses of %s: %w", device, err)
	}
	wanted := make(map[netip.Addr]bool, len(own))
	for _, a := range own {
		wanted[a] = a.IsValid()
	}
	for i := range had {
		if a, ok := netip.AddrFromSlice(had[i].IP); ok && !wanted[a.Unmap()] {
			if err := l.host.AddrDel(dev, &had[i]); err != nil {
				return fmt.Errorf("remove the former address %s: %w", a, err)
			}
		}
	}
	source := map[bool]netip.Addr{}
	for _, a := range own {
		if !a.IsValid() {
			continue
		}
		flags := 0
		if a.Is6() {
			flags = unix.IFA_F_NODAD
		}
		if err := l.host.AddrReplace(dev, &netlink.Addr{IPNet: single(a), Flags: flags}); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
		source[a.Is6()] = a
	}
	for _, p := range networks {
		if !p.IsValid() {
			continue
		}
		r := &netlink.Route{LinkIndex: dev.Attrs().Index, Dst: network(p), Scope: netlink.SCOPE_LINK,
			Src: source[p.Addr().Is6()].AsSlice()}
		if err := l.host.RouteReplace(r); err != nil {
			return fmt.Errorf("route to services, %s: %w", p, err)
		}
	}
	return nil
}

// Label of a device, in words, "" where it has none or is not there.
func (l *Links) Label(device string) (string, error) {
	dev, err := l.host.LinkByName(device)
	switch {
	case err == nil:
		return dev.Attrs().Alias, nil
	case absent(err):
		return "", nil
	}
	return "", fmt.Errorf("look for device %s: %w", device, err)
}

// maxLabel is the kernel's bound.
const maxLabel = 255

// SetLabel says of a device, for people and for other workers, whose it is.
func (l *Links) SetLabel(device, text string) error {
	dev, err := l.host.LinkByName(device)
	if err == nil {
		err = l.host.LinkSetAlias(dev, text[:min(len(text), maxLabel)])
	}
	if err != nil {
		return fmt.Errorf("label of device %s: %w", device, err)
	}
	return nil
}
